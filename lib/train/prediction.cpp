#include "train/prediction.hpp"

#include <algorithm>
#include <exception>
#include <optional>

#include "data/cut_dataset.hpp"
#include "data/sharding.hpp"

namespace halograd {
namespace {

HostBatch unlabelled(const Batch* batch) {
  return batch == nullptr ? HostBatch() : HostBatch{batch->size, batch->images.data()};
}

void classify(std::span<const float> predictions, std::size_t width, std::vector<std::int32_t>& classes) {
  classes.resize(predictions.size() / width);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = predicted_class(predictions.subspan(i * width, width));
}

void predict_whole(const Communicator& comm, Network& network, const Replica& replica, const TiledImages& images,
                   const PredictionFile& file, const std::function<void(long finished, long all)>& done) {
  LoaderOptions options;
  options.training = false;
  options.rank = comm.rank();
  options.ranks = comm.ranks();
  options.global_batch = network.largest_batch() * comm.ranks();
  options.prefetch = images.config.prefetch;
  Loader loader(images.images, images.config, options);
  std::vector<float> predictions;
  std::vector<std::int32_t> classes;
  long finished = 0;
  const long all = share_of(images.images.size(), comm.rank(), comm.ranks()).size();
  loader.start_epoch(0);
  const long steps = comm.largest(loader.steps());
  for (long step = 0; step < steps; ++step) {
    // together, so that what goes wrong on one rank ends all of them now and not after their shares
    comm.together([&] {
      const Batch* const batch = loader.next();
      if (batch == nullptr) return;
      predictions.resize(static_cast<std::size_t>(batch->size * network.output().values()));
      network.predict(ExecutionSpace(), replica, unlabelled(batch), predictions, unlabelled(loader.ahead()));
      classify(predictions, static_cast<std::size_t>(network.output().channels), classes);
      file.write(batch->indices.front(), batch->size, predictions, classes);
      finished += batch->size;
    });
    done(finished, all);
  }
}

/// How the tiles of some images, numbered one image after the other, are dealt to the ranks of a group: in turn,
/// `batch` neighbours at a time.
struct TileDeal {
  Range images;
  long tiles;  ///< of an image
  int batch, ranks;
  [[nodiscard]] long all() const { return images.size() * tiles; }
  [[nodiscard]] long steps() const { return (all() + static_cast<long>(batch) * ranks - 1) / batch / ranks; }
  [[nodiscard]] Range range(long step, int rank) const {
    const long begin = (step * ranks + rank) * batch;
    return {std::min(all(), begin), std::min(all(), begin + batch)};
  }
};

/// The tiles that a rank is dealt, as a set of images.
class TileDataset final : public Dataset {
 public:
  TileDataset(const Dataset& images, const Tiling& tiling, const TileDeal& deal, int rank)
      : images_(images), tiling_(tiling), deal_(deal), rank_(rank) {
    for (long step = 0; step < deal.steps(); ++step) size_ += deal.range(step, rank).size();
  }

  [[nodiscard]] long size() const override { return size_; }
  [[nodiscard]] ImageShape shape() const override { return tiling_.tile(); }
  [[nodiscard]] int classes() const override { return 0; }
  [[nodiscard]] long labels_per_image() const override { return 0; }
  /// For one thread.
  void read(std::span<const long> indices, float* tiles, std::int32_t* /*labels*/) const override {
    for (const long index : indices) {
      const long number = deal_.range(index / deal_.batch, rank_).begin + index % deal_.batch;
      const long image = deal_.images.begin + number / deal_.tiles;
      const Box box = tiling_.box(number % deal_.tiles);
      if (!images_.read_part(image, box, tiles)) {
        if (image != whole_image_) read_whole(image);
        cut(whole_.data(), tiling_.image(), tiling_.image().channels, box, tiles);
      }
      tiles += shape().values();
    }
  }

 private:
  void read_whole(long image) const {
    whole_.resize(static_cast<std::size_t>(tiling_.image().values()));
    images_.read(std::span(&image, 1), whole_.data(), nullptr);
    whole_image_ = image;
  }

  const Dataset& images_;
  const Tiling& tiling_;
  TileDeal deal_;
  int rank_;
  long size_ = 0;
  mutable long whole_image_ = -1;
  mutable std::vector<float> whole_;
};

void predict_tiles(const Communicator& comm, Network& network, const Replica& replica, const TiledImages& images,
                   const PredictionFile& file, const std::function<void(long finished, long all)>& done) {
  const int groups = static_cast<int>(std::min<long>(comm.ranks(), images.images.size()));
  int number = 0;
  while (share_of(comm.ranks(), number, groups).end <= comm.rank()) ++number;
  const OwnedComm group = comm.split(number);
  TileDeal deal{share_of(images.images.size(), number, groups), images.tiling.tiles(), 1, group.ranks()};
  deal.batch = static_cast<int>(std::min<long>(network.largest_batch(), (deal.all() + deal.ranks - 1) / deal.ranks));
  const TileDataset tiles(images.images, images.tiling, deal, group.rank());
  LoaderOptions options;
  options.training = false;
  options.global_batch = deal.batch;
  options.prefetch = images.config.prefetch;
  Loader loader(tiles, images.config, options);
  loader.start_epoch(0);
  const int width = network.output().channels;
  std::vector<float> predictions;
  std::vector<std::int32_t> classes;
  long finished = 0;
  std::optional<TileBlend> blend;  // of the group's first rank, which all others send to
  comm.together([&] {
    if (group.rank() > 0) return;
    blend.emplace(images.tiling, width, [&](const Box& part, std::span<const float> values) {
      classify(values, static_cast<std::size_t>(width), classes);
      file.write_part(deal.images.begin + finished / deal.tiles, part, values, classes);
    });
  });
  const auto resize_for = [&](const Range& range) {
    predictions.resize(static_cast<std::size_t>(range.size() * network.output().values()));
  };
  const long steps = comm.largest(deal.steps());
  for (long step = 0; step < steps; ++step) {
    resize_for(deal.range(step, group.rank()));
    comm.together([&] {
      if (const Batch* const batch = loader.next())
        network.predict(ExecutionSpace(), replica, unlabelled(batch), predictions, unlabelled(loader.ahead()));
    });
    if (group.rank() > 0) group.send(std::span<const float>(predictions), 0);
    comm.together([&] {
      if (group.rank() > 0) return;
      std::exception_ptr error;  // all are received, whatever becomes of them
      for (int rank = 0; rank < group.ranks(); ++rank) {
        const Range range = deal.range(step, rank);
        resize_for(range);
        if (rank > 0) group.receive(std::span(predictions), rank);
        try {
          for (long i = 0; i < range.size() && !error; ++i, ++finished)
            blend->add(std::span(predictions).subspan(i * network.output().values(), network.output().values()));
        } catch (...) {
          error = std::current_exception();
        }
      }
      if (error) std::rethrow_exception(error);
    });
    done(finished, deal.all());
  }
}

}  // namespace

void predict(const Communicator& comm, Network& network, const Replica& replica, const TiledImages& images,
             const PredictionFile& file, const std::function<void(long finished, long all)>& done) {
  (images.tiling.tiles() == 1 ? predict_whole : predict_tiles)(comm, network, replica, images, file, done);
}

}  // namespace halograd
