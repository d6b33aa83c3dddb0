#include "train/finite_guard.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/finite.hpp"
#include "train/host_batch.hpp"

namespace halograd {
namespace {

/// "image 117 of the training set (data/set.h5)"; of several in a batch the first. Empty where all are finite.
std::string broken_image(const Batch& batch, const std::string& data) {
  const auto broken = std::find_if(batch.images.begin(), batch.images.end(), [](float x) { return !std::isfinite(x); });
  if (broken == batch.images.end()) return "";
  const std::size_t values = batch.images.size() / static_cast<std::size_t>(batch.size);
  const std::size_t place = static_cast<std::size_t>(broken - batch.images.begin()) / values;
  return "image " + std::to_string(batch.indices[place]) + " of the training set (" + data + ")";
}

}  // namespace

FiniteGuard::FiniteGuard(Network& network, const Replica& replica)
    : network_(network), replica_(replica), statistics_("halograd::kept_statistics", network.statistic_count()) {}

void FiniteGuard::keep(const ExecutionSpace& exec) {
  Kokkos::deep_copy(exec, statistics_, replica_.statistics);
}

bool FiniteGuard::finite(const ExecutionSpace& exec, double loss) const {
  const Space* const space = network_.space();
  Vector<float> own = replica_.gradients;
  if (space != nullptr) own = space->shard(own);
  double broken[] = {static_cast<double>(count_non_finite<float>(exec, own))};
  if (space != nullptr) space->add(std::span<double>(broken));
  return std::isfinite(loss) && broken[0] == 0;
}

std::string FiniteGuard::take_back(const ExecutionSpace& exec, const Batch& batch, const std::string& data,
                                   std::uint64_t random_key) {
  Kokkos::deep_copy(exec, replica_.statistics, statistics_);
  std::string where = broken_image(batch, data);
  if (where.empty() || network_.space() != nullptr) {  // the ranks of a group look together, whoever has the image
    const std::string found = network_.first_non_finite(exec, replica_, host_batch(&batch), random_key);
    if (where.empty()) where = found;
  }
  Kokkos::deep_copy(exec, replica_.statistics, statistics_);
  Kokkos::deep_copy(exec, replica_.gradients, 0.0F);
  return where;
}

}  // namespace halograd
