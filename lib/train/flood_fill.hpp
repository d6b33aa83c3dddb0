#pragma once

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "config/flood_filling_config.hpp"
#include "kernels/shape.hpp"

namespace halograd {

/// Along the axes D, H, W of an image.
using Pixel = std::array<int, 3>;

/// What a flood-filling network is given of images of a shape: a field of view, with the mask of the object before the
/// channels of the image. Throws Error where it is larger than the image, or where the numbers of `view` or `move` are
/// neither one nor as many as the image has axes.
Shape view_of(const FloodFillingConfig& config, const Shape& image);

/// One object that grows through an image as a network says, field of view by field of view (Januszewski et al., 2018,
/// "Flood-filling networks"). Its mask starts at a probability of 0.05, and 0.95 at the seed; the network's outputs
/// replace it in the field of view, in logits of at most 12 either way. Where on a face of the box that a move leads to
/// the most probable pixel (of equals, the nearest) reaches the threshold, the field of view moves to that pixel, the
/// most probable first.
class FloodFill {
 public:
  /// Throws Error as view_of does.
  FloodFill(const FloodFillingConfig& config, const Shape& image);

  /// Begins anew. The seed's field of view has to lie in the image.
  void start(const Pixel& seed);
  /// Whether a pixel's field of view lies in the image.
  [[nodiscard]] bool has_room(const Pixel& centre) const;
  /// Where the field of view goes next: a pixel that it has room for, that no earlier one was near, and that is not
  /// `taken`; nothing when no move is left.
  std::optional<Pixel> next(const std::function<bool(const Pixel&)>& taken = {});
  /// What the network is given there: view ([D, [H,]] W, 1 + C) of image ([D, [H,]] W, C).
  void look(const Pixel& centre, std::span<const float> image, std::span<float> view) const;
  /// Takes what the network said there: logits, one per pixel of the view. The mask keeps them, and moves follow.
  void take(const Pixel& centre, std::span<const float> logits);

  /// How probable each pixel of the image belongs to the object, in logits.
  [[nodiscard]] std::span<const float> mask() const { return mask_; }
  /// The pixels that have been seen since the start.
  [[nodiscard]] const Box& seen() const { return seen_; }
  /// The pixels of the field of view around a pixel.
  [[nodiscard]] Box box_around(const Pixel& centre) const;

 private:
  [[nodiscard]] long index(int d, int h, int w) const {
    return (static_cast<long>(d) * image_.height + h) * image_.width + w;
  }
  [[nodiscard]] std::pair<float, Pixel> most_probable(const Box& box, const Pixel& centre) const;
  [[nodiscard]] long cell_of(const Pixel& pixel) const;

  Shape image_, view_;
  std::array<int, 3> move_;
  float threshold_;  // logit
  std::vector<float> mask_;
  Box seen_;
  std::deque<Pixel> moves_;
  std::unordered_set<long> visited_;  // cells of the extents of a move
};

}  // namespace halograd
