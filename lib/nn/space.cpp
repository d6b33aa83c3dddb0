#include "nn/space.hpp"

#include <algorithm>
#include <string>

#include "mpi/communicator.hpp"
#include "window/group_window.hpp"
#include "window/transport_options.hpp"

namespace halograd {

Division divide_evenly(const Blocks& blocks, const Shape& shape) {
  if (blocks == Blocks{1, 1, 1}) return {};
  Division division;
  for (int axis = 0; axis < 3; ++axis) {
    const long extent = shape.extents()[axis];
    if (extent < blocks[axis]) return {};
    for (int block = 0; block <= blocks[axis]; ++block) {
      division.cuts[axis].push_back(static_cast<int>(extent * block / blocks[axis]));
    }
  }
  return division;
}

Box box_of(const Blocks& blocks, const Division& division, const Shape& shape, int rank) {
  if (!division.divided()) return Box::whole(shape);
  const std::array<int, 3> block{rank / blocks[2] / blocks[1], rank / blocks[2] % blocks[1], rank % blocks[2]};
  Box box;
  for (int axis = 0; axis < 3; ++axis) {
    box.begin[axis] = division.cuts[axis][block[axis]];
    box.end[axis] = division.cuts[axis][block[axis] + 1];
  }
  return box;
}

struct Space::Group {
  Group(const Communicator& of, const Blocks& as, const TransportOptions& by)
      : comm(of),
        blocks(as),
        options(by),
        lengths(static_cast<std::size_t>(of.ranks()), std::vector<std::size_t>(static_cast<std::size_t>(of.ranks()))) {}

  OwnedComm comm;
  Blocks blocks;
  TransportOptions options;
  GroupWindow::Lengths lengths;
  std::unique_ptr<GroupWindow> window;  ///< once open
};

Space::Space(const Communicator& group, const Blocks& blocks, const TransportOptions& options)
    : group_(std::make_unique<Group>(group, blocks, options)) {
  const int count = blocks[0] * blocks[1] * blocks[2];
  group.fail_together(count == ranks() ? ""
                                       : std::to_string(count) + " blocks for a group of " + std::to_string(ranks()) +
                                             " ranks; expected one per rank");
}

Space::~Space() = default;

int Space::rank() const {
  return group_->comm.rank();
}

int Space::ranks() const {
  return group_->comm.ranks();
}

Division Space::evenly(const Shape& shape) const {
  return divide_evenly(group_->blocks, shape);
}

Box Space::box_of(const Division& division, const Shape& shape, int rank) const {
  return halograd::box_of(group_->blocks, division, shape, rank);
}

Division Space::following(const Division& input, const Shape& in, const Shape& out) const {
  if (in.extents() == out.extents()) return input;
  Division division = evenly(out);
  if (!input.divided() || !division.divided()) return division;
  for (int axis = 0; axis < 3; ++axis) {
    const int from = in.extents()[axis], to = out.extents()[axis];
    const std::vector<int>& cuts = input.cuts[axis];
    if (to % from == 0) {
      std::transform(cuts.begin(), cuts.end(), division.cuts[axis].begin(), [&](int cut) { return cut * (to / from); });
    } else if (from % to == 0 &&
               std::all_of(cuts.begin(), cuts.end(), [&](int cut) { return cut % (from / to) == 0; })) {
      std::transform(cuts.begin(), cuts.end(), division.cuts[axis].begin(), [&](int cut) { return cut / (from / to); });
    }
  }
  return division;
}

void Space::expect_message(int from, int to, std::size_t floats) {
  std::size_t& length = group_->lengths[from][to];
  length = std::max(length, floats);
}

void Space::expect_sum(std::size_t doubles) {
  expect_of_all(GroupWindow::floats_of(doubles));
}

void Space::expect_sum_of_floats(std::size_t floats) {
  expect_of_all(std::min(GroupWindow::piece, GroupWindow::shard(floats, 0, ranks()).length));
}

void Space::expect_of_all(std::size_t floats) {
  for (int from = 0; from < ranks(); ++from) {
    for (int to = 0; to < ranks(); ++to) {
      if (from != to) expect_message(from, to, floats);
    }
  }
}

void Space::open() {
  group_->window = std::make_unique<GroupWindow>(group_->comm, group_->lengths, group_->options);
}

void Space::together(const std::function<void()>& work) const {
  group_->comm.together(work);
}

GroupWindow& Space::window() const {
  return *group_->window;
}

double Space::wait_seconds() const {
  return window().wait_seconds();
}

std::int64_t Space::bytes_sent() const {
  return window().bytes_sent();
}

void Space::add(const ExecutionSpace& exec, Vector<double> numbers) const {
  const auto host = Kokkos::create_mirror_view(numbers);
  Kokkos::deep_copy(exec, host, numbers);
  exec.fence();
  window().sum(HostVector<double>(host.data(), host.size()));
  Kokkos::deep_copy(exec, numbers, host);
}

void Space::add(const ExecutionSpace& exec, Vector<float> values) const {
  const auto host = Kokkos::create_mirror_view(values);
  Kokkos::deep_copy(exec, host, values);
  exec.fence();
  window().sum(HostVector<float>(host.data(), host.size()));
  Kokkos::deep_copy(exec, values, host);
}

void Space::gather(const ExecutionSpace& exec, Vector<float> values) const {
  const auto host = Kokkos::create_mirror_view(values);
  Kokkos::deep_copy(exec, host, values);
  exec.fence();
  window().gather(HostVector<float>(host.data(), host.size()));
  Kokkos::deep_copy(exec, values, host);
}

void Space::add(std::span<double> numbers) const {
  window().sum(HostVector<double>(numbers.data(), numbers.size()));
}

}  // namespace halograd
