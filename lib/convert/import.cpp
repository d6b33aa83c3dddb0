#include "convert/import.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "convert/image_file.hpp"
#include "convert/import_file.hpp"
#include "hdf5/files.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

/// The images of a plan, decoded.
class ImageReader {
 public:
  ImageReader(const ImportPlan& plan, const ImportOptions& options)
      : plan_(plan), options_(options), channels_(row_of(image_colours(), options.colour, "--colour").channels) {
    if (plan.other.path.empty()) return;
    sets_[0] = open_dataset(plan.other, Split::train, 1);
    sets_[1] = open_dataset(plan.other, Split::test, 1);
  }

  /// What all images of the file are brought to: the asked size, else that of the first image that can be read.
  [[nodiscard]] ImportShape shape() const {
    // The first by name, whatever order the plan has drawn.
    std::vector<std::pair<int, std::size_t>> places;
    for (int split = 0; split < 2; ++split)
      for (std::size_t item = 0; item < plan_.items[split].size(); ++item) places.emplace_back(split, item);
    std::sort(places.begin(), places.end(), [this](const auto& left, const auto& right) {
      return plan_.items[left.first][left.second].path < plan_.items[right.first][right.second].path;
    });
    for (const auto& [split, item] : places) {
      const std::optional<Image> image = try_decode(split, item);
      if (!image) continue;
      ImportShape shape{options_.height, options_.width, image->channels};
      if (shape.height == 0) shape = {image->height, image->width, image->channels};
      if (channels_ > 0) shape.channels = channels_;
      return shape;
    }
    fail(options_.sources.front(), ": none of its images can be read");
  }

  /// Throws Error where the image is broken or does not fit.
  void read(int split, std::size_t item, const ImportShape& shape, std::uint8_t* out, std::int32_t& label) const {
    const fs::path& path = plan_.items[split][item].path;
    Image image = decode(split, item, label);
    HALOGRAD_REQUIRE(channels_ > 0 || image.channels <= shape.channels, path.string(),
                     ": has colours, but the first image is grey; give --colour rgb or --colour grey");
    HALOGRAD_REQUIRE(options_.height > 0 || (image.height == shape.height && image.width == shape.width), path.string(),
                     ": is ", image.height, "x", image.width, ", but the first image is ", shape.height, "x",
                     shape.width, "; give --size HEIGHTxWIDTH to resize all images");
    image = resized(with_channels(image, shape.channels), shape.height, shape.width);
    std::copy(image.values.begin(), image.values.end(), out);
  }

 private:
  [[nodiscard]] Image decode(int split, std::size_t item, std::int32_t& label) const {
    const ImportItem& wanted = plan_.items[split][item];
    label = wanted.label;
    if (sets_[split] == nullptr) return read_image(wanted.path);
    const ImageShape shape = sets_[split]->shape();
    std::vector<float> values(static_cast<std::size_t>(shape.values()));
    const long index = wanted.index;
    sets_[split]->read(std::span<const long>(&index, 1), values.data(), &label);
    Image image{shape.height, shape.width, shape.channels, {}};
    for (const float value : values) image.values.push_back(static_cast<std::uint8_t>(std::lround(255 * value)));
    return image;
  }

  [[nodiscard]] std::optional<Image> try_decode(int split, std::size_t item) const {
    std::int32_t label = 0;
    try {
      return decode(split, item, label);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const ImportPlan& plan_;
  const ImportOptions& options_;
  int channels_;  // that are asked for; 0: none
  std::unique_ptr<Dataset> sets_[2];
};

/// Some images that follow each other in the plan.
struct Portion {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
  std::vector<std::string> broken;
};

Portion read_portion(const ImageReader& reader, int split, std::size_t begin, std::size_t count,
                     const ImportShape& shape, int threads) {
  std::vector<std::uint8_t> images(count * shape.values());
  std::vector<std::int32_t> labels(count);
  std::vector<std::string> messages(count);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        reader.read(split, begin + i, shape, images.data() + i * shape.values(), labels[i]);
      } catch (const std::exception& error) {
        messages[i] = error.what();
      }
    }
  };
  std::vector<std::thread> helpers;
  for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  Portion portion;
  for (std::size_t i = 0; i < count; ++i) {
    if (!messages[i].empty()) {
      portion.broken.push_back(messages[i]);
      continue;
    }
    const auto image = images.begin() + static_cast<std::ptrdiff_t>(i * shape.values());
    portion.images.insert(portion.images.end(), image, image + static_cast<std::ptrdiff_t>(shape.values()));
    portion.labels.push_back(labels[i]);
  }
  return portion;
}

ImportFile open_file(const std::string& partial, const ImportPlan& plan, const ImageReader& reader,
                     ImportResult& result) {
  if (!fs::exists(partial)) return ImportFile::create(partial, plan, reader.shape());
  try {
    ImportFile file = ImportFile::resume(partial, plan);
    for (int split = 0; split < 2; ++split) {
      result.resumed += file.state().images[split];
      result.broken_before += file.state().items[split] - file.state().images[split];
    }
    return file;
  } catch (const Error&) {
    result.restarted = true;
    return ImportFile::create(partial, plan, reader.shape());
  }
}

std::string list_of(const std::vector<std::string>& broken) {
  constexpr std::size_t shown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, broken.size()); ++i) text += "\n  " + broken[i];
  if (broken.size() > shown) text += "\n  and " + std::to_string(broken.size() - shown) + " more";
  return text;
}

}  // namespace

ImportResult import_images(const ImportOptions& options, const Progress& progress, const std::atomic<bool>& stop) {
  HALOGRAD_REQUIRE(options.overwrite || !fs::exists(options.output), options.output,
                   ": exists; --overwrite replaces it");
  const ImportPlan plan = plan_import(options);
  const ImageReader reader(plan, options);
  const std::string partial = options.output + ".partial";
  ImportResult result;
  ImportFile file = open_file(partial, plan, reader, result);
  const ImportShape shape = file.shape();
  const long all = static_cast<long>(plan.items[0].size() + plan.items[1].size());
  const int threads =
      options.threads > 0 ? options.threads : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
  const std::size_t portion_images = std::clamp<std::size_t>(4 * mebibyte / shape.values(), 1, 1024);
  bool refused = false;
  for (int split = 0; split < 2; ++split) {
    const auto items = plan.items[split].size();
    for (auto done = static_cast<std::size_t>(file.state().items[split]); done < items;) {
      const std::size_t count = std::min(portion_images, items - done);
      const Portion portion = read_portion(reader, split, done, count, shape, threads);
      result.broken.insert(result.broken.end(), portion.broken.begin(), portion.broken.end());
      refused = refused || (!portion.broken.empty() && !options.skip_broken);
      done += count;
      // Once something is refused, the rest is looked at only to list all that is broken.
      if (!refused) file.append(split, portion.images, portion.labels, static_cast<std::int64_t>(done));
      progress(static_cast<long>(done) + (split == 0 ? 0L : static_cast<long>(plan.items[0].size())), all);
      HALOGRAD_REQUIRE(!stop, options.output, ": stopped; ", partial,
                       refused ? " keeps what came before the first broken image"
                               : " keeps what is done, and the same command continues it");
    }
  }
  HALOGRAD_REQUIRE(
      !refused, result.broken.size(), " of ", all,
      " images cannot be used; repair or remove them, or skip them with --broken skip:", list_of(result.broken));
  result.height = shape.height;
  result.width = shape.width;
  result.channels = shape.channels;
  result.class_names = plan.class_names;
  for (int split = 0; split < 2; ++split) result.images[split] = file.state().images[split];
  HALOGRAD_REQUIRE(result.images[0] > 0, options.output, ": no image for training is left");
  file.finish();
  publish_file(partial, options.output);
  return result;
}

}  // namespace halograd
