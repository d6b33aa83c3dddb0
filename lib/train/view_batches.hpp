#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/loader.hpp"
#include "train/flood_fill.hpp"

namespace halograd {

/// A batch of images as a flood-filling network sees it: one object in each, from its central pixel on, for up to
/// flood_filling.visits fields of view.
class ViewBatches {
 public:
  /// Images of this shape, with a label per pixel. Throws Error as view_of does.
  ViewBatches(const FloodFillingConfig& config, const Shape& image, int largest_batch);

  /// What the network says of a batch of views, in logits (views.size, pixels of a view), and whether to go on.
  using See = std::function<bool(const Batch& views, std::span<float> logits)>;
  /// Shows the next view of each image that has one left, batch by batch. Returns how many there were.
  long show(const Batch& images, const See& see);
  /// The views that were shown last.
  [[nodiscard]] const Batch& last() const { return views_; }

 private:
  void look(const Batch& images, int image, const Pixel& centre);

  Shape image_, view_;
  int visits_;
  std::vector<FloodFill> fills_;
  Batch views_;
  std::vector<float> logits_;
};

/// Null where the network sees whole images.
std::unique_ptr<ViewBatches> make_view_batches(const FloodFillingConfig& config, const Shape& image, int largest_batch);

}  // namespace halograd
