#include "nn/space.hpp"

#include <algorithm>
#include <string>

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

Space::Space(const Communicator& group, const Blocks& blocks, const TransportOptions& options)
    : group_(group),
      blocks_(blocks),
      options_(options),
      lengths_(static_cast<std::size_t>(group.ranks()),
               std::vector<std::size_t>(static_cast<std::size_t>(group.ranks()))) {
  const int count = blocks[0] * blocks[1] * blocks[2];
  group_.fail_together(count == ranks() ? ""
                                        : std::to_string(count) + " blocks for a group of " + std::to_string(ranks()) +
                                              " ranks; expected one per rank");
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
  lengths_[from][to] = std::max(lengths_[from][to], floats);
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
  window_ = std::make_unique<GroupWindow>(group_, lengths_, options_);
}

void Space::add(const ExecutionSpace& exec, Vector<double> numbers) const {
  const auto host = Kokkos::create_mirror_view(numbers);
  Kokkos::deep_copy(exec, host, numbers);
  exec.fence();
  window_->sum(HostVector<double>(host.data(), host.size()));
  Kokkos::deep_copy(exec, numbers, host);
}

void Space::add(const ExecutionSpace& exec, Vector<float> values) const {
  const auto host = Kokkos::create_mirror_view(values);
  Kokkos::deep_copy(exec, host, values);
  exec.fence();
  window_->sum(HostVector<float>(host.data(), host.size()));
  Kokkos::deep_copy(exec, values, host);
}

void Space::gather(const ExecutionSpace& exec, Vector<float> values) const {
  const auto host = Kokkos::create_mirror_view(values);
  Kokkos::deep_copy(exec, host, values);
  exec.fence();
  window_->gather(HostVector<float>(host.data(), host.size()));
  Kokkos::deep_copy(exec, values, host);
}

void Space::add(std::span<double> numbers) const {
  window_->sum(HostVector<double>(numbers.data(), numbers.size()));
}

}  // namespace halograd
