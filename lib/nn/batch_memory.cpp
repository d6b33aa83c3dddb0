#include "nn/batch_memory.hpp"

#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "support/memory.hpp"

namespace halograd {

BatchMemory::BatchMemory(const Shape& input, const Target& target, int largest_batch, bool in_place)
    : image_values_(input.values()),
      labels_per_image_(target.labels_per_image),
      target_values_(target.target_values),
      largest_batch_(largest_batch),
      in_place_(in_place) {
  if (in_place) return;
  const Lengths most = lengths(largest_batch);
  require_kernel_memory(2.0 * sizeof(float) * static_cast<double>(most.images + most.labels + most.targets),
                        "two batches of " + std::to_string(largest_batch) + " images");
  for (Place& place : places_) {
    place.images = Buffer<float>("halograd::images", most.images);
    place.labels = Buffer<std::int32_t>("halograd::labels", most.labels);
    place.targets = Buffer<float>("halograd::targets", most.targets);
  }
}

BatchMemory::Lengths BatchMemory::lengths(int batch) const {
  const auto labels = static_cast<std::size_t>(batch * labels_per_image_);
  return {static_cast<std::size_t>(batch * image_values_), target_values_ > 0 ? 0 : labels,
          labels * static_cast<std::size_t>(target_values_)};
}

BatchMemory::Lengths BatchMemory::lengths(const HostBatch& batch) const {
  const Lengths whole = lengths(batch.size);
  return {whole.images, batch.labels == nullptr ? 0 : whole.labels, batch.targets == nullptr ? 0 : whole.targets};
}

DeviceBatch BatchMemory::load(const ExecutionSpace& exec, const HostBatch& batch) {
  HALOGRAD_REQUIRE(batch.size >= 1 && batch.size <= largest_batch_, "a batch of ", batch.size,
                   " images for a network built for 1 to ", largest_batch_);
  const Lengths length = lengths(batch);
  if (in_place_) {
    return {Vector<const float>(batch.images, length.images), Vector<const std::int32_t>(batch.labels, length.labels),
            Vector<const float>(batch.targets, length.targets)};
  }
  const HostBatch expected = std::exchange(expected_, HostBatch());
  const bool came_ahead = expected.images == batch.images && expected.size == batch.size;
  if (came_ahead) {
    copies_.wait();
    current_ = 1 - current_;
  }
  const Place& place = places_[static_cast<std::size_t>(current_)];
  const auto images = slice(place.images, 0, length.images);
  const auto labels = slice(place.labels, 0, length.labels);
  const auto targets = slice(place.targets, 0, length.targets);
  if (!came_ahead) {
    Kokkos::deep_copy(exec, images, HostVector<const float>(batch.images, length.images));
    Kokkos::deep_copy(exec, labels, HostVector<const std::int32_t>(batch.labels, length.labels));
    Kokkos::deep_copy(exec, targets, HostVector<const float>(batch.targets, length.targets));
  }
  return {images, labels, targets};
}

void BatchMemory::prefetch(const HostBatch& next) {
  if (in_place_ || next.size < 1 || next.size > largest_batch_) return;
  const Place& place = places_[static_cast<std::size_t>(1 - current_)];
  const Lengths length = lengths(next);
  copies_.copy(place.images.data(), next.images, length.images * sizeof(float));
  copies_.copy(place.labels.data(), next.labels, length.labels * sizeof(std::int32_t));
  copies_.copy(place.targets.data(), next.targets, length.targets * sizeof(float));
  expected_ = next;
}

}  // namespace halograd
