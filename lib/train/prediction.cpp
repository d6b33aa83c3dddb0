#include "train/prediction.hpp"

#include <algorithm>

namespace halograd {
namespace {

HostBatch unlabelled(const Batch* batch) {
  return batch == nullptr ? HostBatch() : HostBatch{batch->size, batch->images.data()};
}

/// One image after the other, a few tiles at a time.
class TiledPrediction {
 public:
  TiledPrediction(Network& network, const Replica& replica, const Tiling& tiling)
      : network_(network), replica_(replica), tiling_(tiling) {
    const auto most = static_cast<std::size_t>(network.largest_batch());
    tiles_.resize(most * values(network.input()));
    tile_predictions_.resize(most * values(network.output()));
  }

  void predict(std::span<const float> image, std::span<float> predictions) {
    const int width = network_.output().channels, most = network_.largest_batch();
    sums_.assign(predictions.size(), 0.0);
    for (long first = 0; first < tiling_.tiles(); first += most) {
      const int count = static_cast<int>(std::min<long>(most, tiling_.tiles() - first));
      for (int i = 0; i < count; ++i)
        tiling_.cut(image, first + i, tiles_.data() + static_cast<std::size_t>(i) * values(network_.input()));
      const std::size_t each = values(network_.output());
      const std::span<float> found(tile_predictions_.data(), static_cast<std::size_t>(count) * each);
      network_.predict(ExecutionSpace(), replica_, {count, tiles_.data()}, found);
      for (int i = 0; i < count; ++i)
        tiling_.add(found.subspan(static_cast<std::size_t>(i) * each, each), first + i, width, sums_);
    }
    tiling_.finish(sums_, width, predictions);
  }

 private:
  static std::size_t values(const Shape& shape) { return static_cast<std::size_t>(shape.values()); }

  Network& network_;
  const Replica& replica_;
  const Tiling& tiling_;
  std::vector<float> tiles_, tile_predictions_;
  std::vector<double> sums_;
};

}  // namespace

void predict(const Communicator& comm, Network& network, const Replica& replica, Loader& loader, const Tiling& tiling,
             const PredictionFile& file, const std::function<void(long images)>& done) {
  TiledPrediction in_tiles(network, replica, tiling);
  const auto width = static_cast<std::size_t>(network.output().channels);
  const long labels = tiling.tiles() == 1 ? network.output().pixels() : tiling.image().pixels();
  const std::size_t each = static_cast<std::size_t>(labels) * width;
  std::vector<float> predictions;
  std::vector<std::int32_t> classes;
  long images = 0;
  loader.start_epoch(0);
  const long steps = comm.largest(loader.steps());
  for (long step = 0; step < steps; ++step) {
    // together, so that what goes wrong on one rank ends all of them now and not after their shares
    comm.together([&] {
      const Batch* const batch = loader.next();
      if (batch == nullptr) return;
      const auto size = static_cast<std::size_t>(batch->size);
      const auto image_values = static_cast<std::size_t>(tiling.image().values());
      predictions.resize(size * each);
      if (tiling.tiles() == 1) {
        network.predict(ExecutionSpace(), replica, unlabelled(batch), predictions, unlabelled(loader.ahead()));
      } else {
        for (std::size_t i = 0; i < size; ++i)
          in_tiles.predict(std::span(batch->images).subspan(i * image_values, image_values),
                           std::span(predictions).subspan(i * each, each));
      }
      classes.resize(predictions.size() / width);
      for (std::size_t i = 0; i < classes.size(); ++i)
        classes[i] = predicted_class(std::span(predictions).subspan(i * width, width));
      file.write(batch->indices.front(), batch->size, predictions, classes);
      images += batch->size;
    });
    done(images);
  }
}

}  // namespace halograd
