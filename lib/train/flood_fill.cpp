#include "train/flood_fill.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/error.hpp"

namespace halograd {
namespace {

float logit(double probability) {
  return static_cast<float>(std::log(probability / (1 - probability)));
}

/// Untrained networks would let a mask that they add to grow without bound.
constexpr float most_certain = 12;

const float of_background = logit(0.05), of_seed = logit(0.95);

std::array<int, 3> of_axes(const char* key, const std::vector<int>& numbers, int dimensions, int otherwise) {
  const auto all = along_axes(numbers, dimensions, otherwise);
  HALOGRAD_REQUIRE(all.has_value(), "flood_filling.", key, " has ", numbers.size(),
                   " numbers, expected one, or one for each of the ", dimensions, " spatial axes of the images");
  return *all;
}

}  // namespace

Shape view_of(const FloodFillingConfig& config, const Shape& image) {
  const Shape view(of_axes("view", config.view, image.dimensions, 1), image.channels + 1, image.dimensions);
  for (int axis = 0; axis < 3; ++axis) {
    const int extent = view.extents()[axis], most = image.extents()[axis];
    HALOGRAD_REQUIRE(extent >= 1 && extent <= most, "flood_filling.view: a field of view of ", to_string(view),
                     ", with the mask's channel, does not fit into images of ", to_string(image));
  }
  return view;
}

FloodFill::FloodFill(const FloodFillingConfig& config, const Shape& image)
    : image_(image),
      view_(view_of(config, image)),
      move_(of_axes("move", config.move, image.dimensions, 0)),
      threshold_(logit(config.move_threshold)),
      mask_(static_cast<std::size_t>(image.pixels()), of_background),
      seen_{{0, 0, 0}, {0, 0, 0}} {}

Box FloodFill::box_around(const Pixel& centre) const {
  Box box;
  for (int axis = 0; axis < 3; ++axis) {
    box.begin[axis] = centre[axis] - view_.extents()[axis] / 2;
    box.end[axis] = box.begin[axis] + view_.extents()[axis];
  }
  return box;
}

bool FloodFill::has_room(const Pixel& centre) const {
  return Box::whole(image_).holds(box_around(centre));
}

long FloodFill::cell_of(const Pixel& pixel) const {
  long cell = 0;
  for (int axis = 0; axis < 3; ++axis) cell = cell * image_.extents()[axis] + pixel[axis] / std::max(1, move_[axis]);
  return cell;
}

void FloodFill::start(const Pixel& seed) {
  for_each_row(image_, seen_,
               [&](long from, long /*at*/, long length) { std::fill_n(&mask_[from], length, of_background); });
  seen_ = box_around(seed);
  mask_[index(seed[0], seed[1], seed[2])] = of_seed;
  moves_.assign(1, seed);
  visited_.clear();
}

std::optional<Pixel> FloodFill::next(const std::function<bool(const Pixel&)>& taken) {
  while (!moves_.empty()) {
    const Pixel pixel = moves_.front();
    moves_.pop_front();
    if (!has_room(pixel) || (taken && taken(pixel)) || !visited_.insert(cell_of(pixel)).second) continue;
    return pixel;
  }
  return std::nullopt;
}

void FloodFill::look(const Pixel& centre, std::span<const float> image, std::span<float> view) const {
  const int channels = image_.channels;
  for_each_row(image_, box_around(centre), [&](long from, long at, long length) {
    for (long i = 0; i < length; ++i) {
      float* const pixel = &view[(at + i) * (channels + 1)];
      pixel[0] = mask_[from + i];
      std::copy_n(&image[(from + i) * channels], channels, pixel + 1);
    }
  });
}

/// The most probable pixel of a box and its logit; of equals the nearest to `centre`.
std::pair<float, Pixel> FloodFill::most_probable(const Box& box, const Pixel& centre) const {
  std::pair<float, int> best{-std::numeric_limits<float>::infinity(), 0};  // logit, squared distance with a minus
  Pixel place = box.begin;
  for (int d = box.begin[0]; d < box.end[0]; ++d) {
    for (int h = box.begin[1]; h < box.end[1]; ++h) {
      for (int w = box.begin[2]; w < box.end[2]; ++w) {
        const int away =
            (d - centre[0]) * (d - centre[0]) + (h - centre[1]) * (h - centre[1]) + (w - centre[2]) * (w - centre[2]);
        const std::pair<float, int> here{mask_[index(d, h, w)], -away};
        if (here <= best) continue;
        best = here;
        place = {d, h, w};
      }
    }
  }
  return {best.first, place};
}

void FloodFill::take(const Pixel& centre, std::span<const float> logits) {
  const Box box = box_around(centre);
  for_each_row(image_, box, [&](long from, long at, long length) {
    std::transform(&logits[at], &logits[at] + length, &mask_[from],
                   [](float x) { return std::clamp(x, -most_certain, most_certain); });
  });
  for (int axis = 0; axis < 3; ++axis) {
    seen_.begin[axis] = std::min(seen_.begin[axis], box.begin[axis]);
    seen_.end[axis] = std::max(seen_.end[axis], box.end[axis]);
  }
  Box reach;  // of one move, in the field of view
  for (int axis = 0; axis < 3; ++axis) {
    reach.begin[axis] = std::max(box.begin[axis], centre[axis] - move_[axis]);
    reach.end[axis] = std::min(box.end[axis], centre[axis] + move_[axis] + 1);
  }
  std::vector<std::pair<float, Pixel>> found;
  for (int axis = 0; axis < 3; ++axis) {
    for (const int side : {-1, 1}) {
      Box face = reach;
      face.begin[axis] = centre[axis] + side * move_[axis];
      face.end[axis] = face.begin[axis] + 1;
      if (move_[axis] == 0 || !box.holds(face)) continue;
      const auto best = most_probable(face, centre);
      if (best.first >= threshold_) found.push_back(best);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [score, pixel] : found) moves_.push_back(pixel);
}

}  // namespace halograd
