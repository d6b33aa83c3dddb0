#pragma once

#include <array>
#include <cstdint>

#include "kernels/copy_stream.hpp"
#include "kernels/shape.hpp"
#include "kernels/types.hpp"
#include "nn/loss.hpp"

namespace halograd {

/// Images and labels in host memory, as the loader gives them.
struct HostBatch {
  int size = 0;
  const float* images = nullptr;         ///< (size, H, W, C)
  const std::int32_t* labels = nullptr;  ///< (size, labels per image); null: none
  const float* targets = nullptr;        ///< (size, labels per image, target_values) where labels are real numbers
};

/// The same where kernels read it.
struct DeviceBatch {
  Vector<const float> images;
  Vector<const std::int32_t> labels;
  Vector<const float> targets;
};

/// Where batches lie while a network works on them: in place where kernels run on the host; elsewhere in one of two
/// places in device memory, so that the next batch is copied into the other one meanwhile.
class BatchMemory {
 public:
  /// Throws Error where the device has too little memory. `in_place` is not to be chosen but by tests.
  BatchMemory(const Shape& input, const Target& target, int largest_batch, bool in_place = runs_on_host);

  /// The batch as work given to `exec` from now on finds it, until the next load. Throws Error where its size does not
  /// fit.
  DeviceBatch load(const ExecutionSpace& exec, const HostBatch& batch);

  /// Starts to copy the batch that the next load may be given; until then its memory must not change, and of the batch
  /// before the one in work nothing may be read any more. An empty batch is none.
  void prefetch(const HostBatch& next);

 private:
  struct Place {
    Buffer<float> images;
    Buffer<std::int32_t> labels;
    Buffer<float> targets;
  };
  struct Lengths {
    std::size_t images, labels, targets;
  };
  [[nodiscard]] Lengths lengths(int batch) const;
  [[nodiscard]] Lengths lengths(const HostBatch& batch) const;

  long image_values_;
  long labels_per_image_;
  int target_values_;
  int largest_batch_;
  bool in_place_;
  std::array<Place, 2> places_;
  int current_ = 0;     // the place of the batch in work
  HostBatch expected_;  // what the other one holds, or is about to; empty: nothing of use
  CopyStream copies_;
};

}  // namespace halograd
