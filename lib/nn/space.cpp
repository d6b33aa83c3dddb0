#include "nn/space.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "window/group_window.hpp"

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

Space::Space(std::unique_ptr<GroupWindow> window, const Blocks& blocks, bool divides_channels)
    : window_(std::move(window)), blocks_(blocks), divides_channels_(divides_channels) {
  const int count = blocks[0] * blocks[1] * blocks[2];
  window_->together([&] {
    HALOGRAD_REQUIRE(count == 1 || count == ranks(), count, " blocks for a group of ", ranks(),
                     " ranks; expected one per rank");
  });
}

Space::~Space() = default;

int Space::rank() const {
  return window_->rank();
}

int Space::ranks() const {
  return window_->ranks();
}

Division Space::evenly(const Shape& shape) const {
  return divide_evenly(blocks_, shape);
}

Box Space::box_of(const Division& division, const Shape& shape, int rank) const {
  return halograd::box_of(blocks_, division, shape, rank);
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

void Space::add(const ExecutionSpace& exec, Vector<double> numbers) const {
  const auto host = Kokkos::create_mirror_view(numbers);
  Kokkos::deep_copy(exec, host, numbers);
  exec.fence();
  window_->sum(HostVector<double>(host.data(), host.size()));
  Kokkos::deep_copy(exec, numbers, host);
}

Vector<float> Space::shard(const Vector<float>& values) const {
  const GroupWindow::Shard own = GroupWindow::shard(values.size(), rank(), ranks());
  return slice(values, own.begin, own.length);
}

void Space::add_shards(const ExecutionSpace& exec, const Vector<float>& values) const {
  const auto host = Kokkos::create_mirror_view(values);
  Kokkos::deep_copy(exec, host, values);
  exec.fence();
  window_->sum_shards(HostVector<float>(host.data(), host.size()));
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
