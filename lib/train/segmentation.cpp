#include "train/segmentation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "kernels/error.hpp"
#include "train/seeds.hpp"

namespace halograd {
namespace {

/// Gives numbers to objects and takes those of too few pixels back.
class ObjectMap {
 public:
  ObjectMap(const Shape& shape, const SegmentationRules& rules)
      : shape_(shape),
        threshold_(static_cast<float>(std::log(rules.threshold / (1 - rules.threshold)))),
        least_pixels_(rules.least_pixels) {
    objects_.labels.assign(static_cast<std::size_t>(shape.pixels()), 0);
  }

  [[nodiscard]] bool free(const Pixel& pixel) const { return objects_.labels[index(pixel)] == 0; }

  /// The pixels that have grown from the seed and are nobody's yet.
  void add(const FloodFill& fill, const Pixel& seed) {
    const std::span<const float> mask = fill.mask();
    if (mask[index(seed)] < threshold_) return;
    std::vector<std::size_t> pixels;
    for_each_row(shape_, fill.seen(), [&](long from, long /*to*/, long length) {
      for (std::size_t i = from; i < static_cast<std::size_t>(from + length); ++i)
        if (mask[i] >= threshold_ && objects_.labels[i] == 0) pixels.push_back(i);
    });
    if (static_cast<long>(pixels.size()) < least_pixels_) return;
    ++objects_.count;
    for (const std::size_t i : pixels) objects_.labels[i] = objects_.count;
  }

  [[nodiscard]] Objects take() { return std::move(objects_); }

 private:
  [[nodiscard]] std::size_t index(const Pixel& pixel) const {
    return (static_cast<std::size_t>(pixel[0]) * shape_.height + pixel[1]) * shape_.width + pixel[2];
  }

  Shape shape_;
  float threshold_;  // logit
  long least_pixels_;
  Objects objects_;
};

/// Which of two numbered objects are one.
class Unions {
 public:
  explicit Unions(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }
  void join(std::uint32_t one, std::uint32_t other) {
    one = root(one);
    other = root(other);
    parent_[std::max(one, other)] = std::min(one, other);
  }
  std::uint32_t root(std::uint32_t object) {
    while (parent_[object] != object) object = parent_[object] = parent_[parent_[object]];
    return object;
  }

 private:
  std::vector<std::uint32_t> parent_;
};

using Pair = std::pair<std::uint32_t, std::uint32_t>;

/// For each two objects that have pixels in common, how many; those of one alone stand beside 0.
std::map<Pair, long> common_pixels(std::span<const std::uint32_t> one, std::span<const std::uint32_t> other) {
  std::map<Pair, long> common;
  for (std::size_t i = 0, end = 0; i < one.size(); i = end) {  // a run of equal pairs at once
    while (end < one.size() && one[end] == one[i] && other[end] == other[i]) ++end;
    common[{one[i], other[i]}] += static_cast<long>(end - i);
  }
  return common;
}

/// The pairs, one after the other, of objects that cover mostly the same pixels.
std::vector<std::uint32_t> same_objects(std::span<const std::uint32_t> one, std::span<const std::uint32_t> other) {
  const std::map<Pair, long> common = common_pixels(one, other);
  std::map<std::uint32_t, long> of_one, of_other;
  for (const auto& [pair, pixels] : common) {
    of_one[pair.first] += pixels;
    of_other[pair.second] += pixels;
  }
  std::vector<std::uint32_t> same;
  for (const auto& [pair, pixels] : common) {
    if (pair.first == 0 || pair.second == 0) continue;
    if (2 * pixels >= of_one[pair.first] + of_other[pair.second] - pixels)
      same.insert(same.end(), {pair.first, pair.second});
  }
  return same;
}

}  // namespace

Objects segment(Network& network, const Replica& replica, const FloodFillingConfig& config,
                std::span<const float> image, const Shape& shape, const SegmentationRules& rules,
                const std::function<void(double share)>& done) {
  const ExecutionSpace exec;
  std::vector<Pixel> seeds = find_seeds(image, shape);
  if (rules.backwards) std::reverse(seeds.begin(), seeds.end());
  ObjectMap objects(shape, rules);
  FloodFill fill(config, shape);
  std::vector<float> view(static_cast<std::size_t>(network.input().values()));
  std::vector<float> logits(static_cast<std::size_t>(network.output().values()));
  const auto taken = [&](const Pixel& pixel) { return !objects.free(pixel); };
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    const Pixel& seed = seeds[i];
    if (!objects.free(seed) || !fill.has_room(seed)) continue;
    fill.start(seed);
    while (const auto centre = fill.next(taken)) {
      fill.look(*centre, image, view);
      network.predict(exec, replica, {1, view.data()}, logits, {}, Network::Read::outputs);
      fill.take(*centre, logits);
    }
    objects.add(fill, seed);
    done(static_cast<double>(i + 1) / static_cast<double>(seeds.size()));
  }
  return objects.take();
}

Objects consensus(const Objects& one, const Objects& other, long least_pixels) {
  Objects objects;
  std::map<Pair, std::uint32_t> numbers;
  for (const auto& [pair, pixels] : common_pixels(one.labels, other.labels)) {
    if (pair.first != 0 && pair.second != 0 && pixels >= least_pixels) numbers[pair] = ++objects.count;
  }
  objects.labels.resize(one.labels.size());
  for (std::size_t i = 0; i < objects.labels.size(); ++i) {
    const auto found = numbers.find({one.labels[i], other.labels[i]});
    objects.labels[i] = found == numbers.end() ? 0 : found->second;
  }
  return objects;
}

Slab slab_of(int extent, int margin, int rank, int ranks) {
  HALOGRAD_REQUIRE(extent / ranks >= margin || ranks == 1, "images of ", extent,
                   " pixels along their first axis cannot be cut for ", ranks,
                   " ranks into slabs that are as thick as a field of view of ", margin, "; expected at most ",
                   std::max(1, extent / margin), " ranks");
  Slab slab{};
  slab.core_begin = static_cast<int>(static_cast<long>(extent) * rank / ranks);
  slab.core_end = static_cast<int>(static_cast<long>(extent) * (rank + 1) / ranks);
  slab.begin = std::max(0, slab.core_begin - margin);
  slab.end = std::min(extent, slab.core_end + margin);
  return slab;
}

std::uint32_t join_slabs(const Communicator& comm, int extent, int margin, long row, Objects& objects) {
  const int rank = comm.rank(), ranks = comm.ranks();
  const std::vector<std::uint32_t> counts = comm.gather(objects.count);
  const std::uint32_t first = std::accumulate(counts.begin(), counts.begin() + rank, 0U);
  const std::uint32_t all = std::accumulate(counts.begin(), counts.end(), 0U);
  for (std::uint32_t& label : objects.labels) label += label == 0 ? 0 : first;
  const Slab slab = slab_of(extent, margin, rank, ranks);
  const auto rows_of = [&](int begin, int end) {
    return std::span(objects.labels).subspan((begin - slab.begin) * row, (end - begin) * row);
  };
  std::vector<std::uint32_t> same;
  for (const int parity : {0, 1}) {  // so that nobody waits for one who waits
    if (rank % 2 == parity && rank + 1 < ranks) {
      const Slab next = slab_of(extent, margin, rank + 1, ranks);
      comm.send(std::span<const std::uint32_t>(rows_of(next.begin, slab.end)), rank + 1);
    } else if (rank % 2 != parity && rank > 0) {
      const Slab before = slab_of(extent, margin, rank - 1, ranks);
      std::vector<std::uint32_t> theirs((before.end - slab.begin) * row);
      comm.receive(std::span(theirs), rank - 1);
      same = same_objects(theirs, rows_of(slab.begin, before.end));
    }
  }
  const std::vector<std::uint32_t> joined = comm.broadcast(comm.join_on_root(same));
  Unions unions(all + 1);
  for (std::size_t i = 0; i < joined.size(); i += 2) unions.join(joined[i], joined[i + 1]);
  std::vector<std::int32_t> present(all + 1);
  for (const std::uint32_t label : rows_of(slab.core_begin, slab.core_end)) present[unions.root(label)] = 1;
  comm.largest(std::span(present));
  std::vector<std::uint32_t> numbers(all + 1);
  std::uint32_t count = 0;
  for (std::uint32_t label = 1; label <= all; ++label) {
    if (unions.root(label) == label) numbers[label] = present[label] == 0 ? 0 : ++count;
  }
  for (std::uint32_t& label : objects.labels) label = numbers[unions.root(label)];
  objects.count = count;
  return count;
}

}  // namespace halograd
