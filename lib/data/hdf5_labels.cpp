#include "data/hdf5_labels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "data/byte_dataset.hpp"
#include "data/hdf5_fields.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

/// Real numbers: (N), (N,K), or a label per pixel, the images' extents without channels, alone or with K behind.
Hdf5Labels read_targets(const Hdf5File& file, const std::string& group, const Hdf5Dataset& dataset,
                        const std::string& where) {
  const std::vector<hsize_t> found = extents_of(dataset, 1, 5, "1 (N) to 5 (N,D,H,W,K)", where);
  const std::string images = where.substr(0, where.size() - std::string("labels").size()) + "images";
  std::vector<hsize_t> pixels =
      extents_of(open_data(file, group + "/images", images), 3, 5, "4 (N,H,W,C); 5 (N,D,H,W,C) or 3 (N,W,C)", images);
  pixels.pop_back();
  Hdf5Labels labels;
  labels.a_pixel = found.size() >= pixels.size() && std::equal(pixels.begin(), pixels.end(), found.begin());
  const std::size_t axes = labels.a_pixel ? pixels.size() : 1;
  HALOGRAD_REQUIRE(found.size() <= axes + 1, where, ": has shape ", listed(found, " x "), ", expected ", pixels[0],
                   " or ", pixels[0], " x K, or for each pixel of the images ", listed(pixels, " x "), " or ",
                   listed(pixels, " x "), " x K");
  labels.target_values = found.size() > axes ? static_cast<int>(found.back()) : 1;
  if (labels.a_pixel) return labels;
  require_held(dataset, sizeof(float), "values", where);
  labels.targets.resize(static_cast<std::size_t>(found[0]) * static_cast<std::size_t>(labels.target_values));
  read_dataset(dataset, H5T_NATIVE_FLOAT, labels.targets.data(), "cannot be read", where);
  const auto bad =
      std::find_if(labels.targets.begin(), labels.targets.end(), [](float value) { return !std::isfinite(value); });
  HALOGRAD_REQUIRE(bad == labels.targets.end(), where, ": label at index ",
                   (bad - labels.targets.begin()) / labels.target_values, " is ", *bad, ", expected finite numbers");
  return labels;
}

Hdf5Labels read_group(const Hdf5File& file, const std::string& group, const fs::path& path) {
  const std::string where = path.string() + ":" + group + "/labels";
  const Hdf5Dataset dataset = open_data(file, group + "/labels", where);
  const Hdf5Type type = dataset_type(dataset, "type", where);
  if (H5Tget_class(type) == H5T_FLOAT) return read_targets(file, group, dataset, where);
  const auto extents = extents_of(dataset, 1, 4, "1 (N), or with one label per pixel 2 to 4 (N,[D,[H,]]W)", where);
  const auto count = static_cast<std::size_t>(extents[0]);
  HALOGRAD_REQUIRE(H5Tget_class(type) == H5T_INTEGER, where, ": has neither an integer nor a float type");
  if (extents.size() > 1) {  // too many to look through for the largest
    HALOGRAD_REQUIRE(has_attribute(dataset, "classes", where), where,
                     ": has one label per pixel, but no attribute `classes`");
    Hdf5Labels labels;
    labels.a_pixel = true;
    labels.classes = attribute(dataset, "classes", std::numeric_limits<std::int32_t>::max(), 0, where);
    return labels;
  }
  require_held(dataset, sizeof(long long), "values", where);
  std::vector<long long> wide(count);
  read_dataset(dataset, H5T_NATIVE_LLONG, wide.data(), "cannot be read", where);
  constexpr int most_classes = std::numeric_limits<std::int32_t>::max();
  Hdf5Labels labels;
  labels.classes = attribute(dataset, "classes", most_classes, 0, where);
  const long long end = labels.classes > 0 ? labels.classes : most_classes;
  for (std::size_t i = 0; i < count; ++i)
    HALOGRAD_REQUIRE(wide[i] >= 0 && wide[i] < end, where, ": label at index ", i, " is ", wide[i],
                     ", expected one in 0..", end - 1);
  labels.values.assign(wide.begin(), wide.end());
  return labels;
}

std::string kind(const Hdf5Labels& labels) {
  return labels.target_values > 0 ? std::to_string(labels.target_values) + " real numbers per label" : "classes";
}

}  // namespace

Hdf5Labels read_labels(const Hdf5File& file, Split split, const fs::path& path) {
  const bool alone = split == Split::test && !has_link(file, "/train", path.string());
  Hdf5Labels training = read_group(file, alone ? "/test" : "/train", path);
  if (alone && training.classes == 0 && !training.values.empty())
    training.classes = 1 + *std::max_element(training.values.begin(), training.values.end());
  if (training.classes == 0 && training.target_values == 0) {
    const LabelScan scan = scan_labels(training.values);
    HALOGRAD_REQUIRE(scan.first_beyond < 0, path.string(), ":/train/labels: label at index ", scan.first_beyond, " is ",
                     training.values[static_cast<std::size_t>(std::max(0L, scan.first_beyond))],
                     " but no training image has label ", scan.classes,
                     "; expected labels 0, 1, 2, ... without a gap, or the attribute `classes`");
    training.classes = scan.classes;
  }
  if (split == Split::train || alone) return training;
  Hdf5Labels test = read_group(file, "/test", path);
  HALOGRAD_REQUIRE(test.a_pixel == training.a_pixel, path.string(), ":/test/labels: has one label ",
                   test.a_pixel ? "per pixel" : "per image", ", but /train/labels has one ",
                   training.a_pixel ? "per pixel" : "per image");
  HALOGRAD_REQUIRE(test.target_values == training.target_values, path.string(), ":/test/labels: has ", kind(test),
                   ", but /train/labels has ", kind(training));
  for (std::size_t i = 0; i < test.values.size(); ++i)
    HALOGRAD_REQUIRE(test.values[i] < training.classes, path.string(), ":/test/labels: label at index ", i, " is ",
                     test.values[i], ", expected one in 0..", training.classes - 1);
  test.classes = training.classes;
  return test;
}

}  // namespace halograd
