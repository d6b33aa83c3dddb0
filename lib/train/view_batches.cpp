#include "train/view_batches.hpp"

#include <optional>
#include <utility>

namespace halograd {

ViewBatches::ViewBatches(const FloodFillingConfig& config, const Shape& image, int largest_batch)
    : image_(image),
      view_(view_of(config, image)),
      visits_(config.visits),
      fills_(static_cast<std::size_t>(largest_batch), FloodFill(config, image)) {}

/// Adds what image `image` of the batch is seen as there, with its labels.
void ViewBatches::look(const Batch& images, int image, const Pixel& centre) {
  const FloodFill& fill = fills_[image];
  views_.images.resize((views_.size + 1) * view_.values());
  fill.look(centre, std::span(images.images).subspan(image * image_.values(), image_.values()),
            std::span(views_.images).subspan(views_.size * view_.values()));
  const std::int32_t* const labels = &images.labels[image * image_.pixels()];
  for_each_row(image_, fill.box_around(centre), [&](long from, long /*to*/, long pixels) {
    views_.labels.insert(views_.labels.end(), labels + from, labels + from + pixels);
  });
  views_.indices.push_back(images.indices[image]);
  ++views_.size;
}

long ViewBatches::show(const Batch& images, const See& see) {
  Pixel middle{};
  for (int axis = 0; axis < 3; ++axis) middle[axis] = image_.extents()[axis] / 2;
  for (int image = 0; image < images.size; ++image) fills_[image].start(middle);
  long shown = 0;
  for (int visit = 0; visit < visits_; ++visit) {
    views_.size = 0;
    views_.labels.clear();
    views_.indices.clear();
    std::vector<std::pair<int, Pixel>> seen;
    for (int image = 0; image < images.size; ++image) {
      const std::optional<Pixel> centre = fills_[image].next();
      if (!centre) continue;
      look(images, image, *centre);
      seen.emplace_back(image, *centre);
    }
    if (seen.empty()) break;
    views_.global_size = views_.size;
    logits_.resize(views_.size * view_.pixels());
    shown += views_.size;
    if (!see(views_, logits_)) break;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      fills_[seen[i].first].take(seen[i].second, std::span(logits_).subspan(i * view_.pixels(), view_.pixels()));
    }
  }
  return shown;
}

std::unique_ptr<ViewBatches> make_view_batches(const FloodFillingConfig& config, const Shape& image,
                                               int largest_batch) {
  return config.on() ? std::make_unique<ViewBatches>(config, image, largest_batch) : nullptr;
}

}  // namespace halograd
