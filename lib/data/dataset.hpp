#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/data_config.hpp"
#include "kernels/shape.hpp"
#include "support/table.hpp"

namespace halograd {

/// Extents of one image, row of values (1 dimension) or volume (3).
using ImageShape = Shape;

/// A set of images, with labels or without. Implementations read IDX, CIFAR binary and HDF5 files, cut fields from
/// volumes, or make synthetic images.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual long size() const = 0;
  [[nodiscard]] virtual ImageShape shape() const = 0;
  /// That of the images that these are parts of; else the same.
  [[nodiscard]] virtual ImageShape whole_shape() const { return shape(); }
  [[nodiscard]] virtual int classes() const = 0;
  /// 1, or as many as an image has pixels, in their order; 0: the set has no labels, and no classes.
  [[nodiscard]] virtual long labels_per_image() const { return 1; }
  /// That of the images that these are parts of; else the same.
  [[nodiscard]] virtual long whole_labels_per_image() const { return labels_per_image(); }
  /// 0: a label is a class; else the number of real numbers, which read_targets gives.
  [[nodiscard]] virtual int target_values() const { return 0; }
  /// Reads the images at `indices`, in that order: images (indices.size(), [D, [H,]] W, C) in 0..1 (8-bit values over
  /// their largest; float32 values as they are; test images that are not finite are refused, training images are for
  /// training.non_finite to deal with), labels (indices.size(), labels_per_image()), which real numbers leave alone.
  /// Safe to call from several threads. Throws Error on a broken file or an index outside the set.
  virtual void read(std::span<const long> indices, float* images, std::int32_t* labels) const = 0;
  /// Reads labels that are real numbers: targets (indices.size(), labels_per_image(), target_values()). As read does.
  virtual void read_targets(std::span<const long> /*indices*/, float* /*targets*/) const {}

  /// Reads `box` of one image, ([D, [H,]] W, C) as read does, and no more of it. False where images can only be read
  /// whole: nothing is read.
  virtual bool read_part(long /*index*/, const Box& /*box*/, float* /*part*/) const { return false; }

  /// Whether any order of reading is as fast as any other.
  [[nodiscard]] virtual bool in_memory() const { return true; }
  /// Neighbouring images that are read from storage together: image i lies in block i / block_images().
  [[nodiscard]] virtual long block_images() const { return 1; }
  /// What will be read from now on, in this order, as far as reading ahead helps; replaces what was expected before.
  /// Not while another thread reads.
  virtual void expect(std::span<const long> /*order*/) const {}
};

enum class Split { train, test };

/// Which part of images of this shape is wanted; empty: all of it.
using PartOf = std::function<Box(const ImageShape& whole)>;

/// Receives a sentence about a problem that does not end the run.
using Warn = std::function<void(const std::string&)>;

/// What data.path is for a format.
enum class DataPath { none, folder, file };

/// How images can be stored: data.format.
struct DatasetFormat {
  const char* name;
  Fact<const char*> meaning;
  Fact<std::unique_ptr<Dataset> (*)(const DataConfig& config, Split split, std::uint64_t seed, const Warn& warn)> open;
  Fact<DataPath> path;
  /// Whether a folder holds files of this format, or a file may be one; nullptr if that cannot be told.
  Fact<bool (*)(const std::filesystem::path& path)> found_at;
  /// Opens images that may have no labels, or parts of them where a part is given; nullptr if files of this format
  /// always have labels.
  Fact<std::unique_ptr<Dataset> (*)(const DataConfig& config, Split split, const Warn& warn, const PartOf& part)>
      open_images;
  /// Opens parts of the images, of which alone it reads; nullptr if files of this format are read image by image.
  Fact<std::unique_ptr<Dataset> (*)(const DataConfig& config, Split split, const Warn& warn, const PartOf& part)>
      open_parts;
};

/// idx        a folder of MNIST, Fashion-MNIST or EMNIST, files plain or gzipped, kept in memory as 8-bit values.
///            EMNIST stores its images transposed; they are handed on as stored.
/// cifar10, cifar100  a folder of the binary version; CIFAR-100 with its fine labels. In memory, like idx.
/// hdf5       a file with /train/images (N,[D,[H,]]W,C) uint8 or float32 and /train/labels (N) integer, and the same
///            under /test; of any size, because images are read when they are needed. Attributes: `maximum` on images,
///            the largest 8-bit value (default 255); `classes` on labels (default: largest training label + 1). Labels
///            may be one per pixel, (N,[D,[H,]]W) with the attribute `classes`, and real numbers (float), of which a
///            label may have several along a last axis. Read ahead in blocks, by the cache_* and readers keys.
/// objects    a file with /train/images (N,[D,[H,]]W,C) as in hdf5 and /train/objects (N,[D,[H,]]W), an object's number
///            per pixel or 0, and the same under /test. An image of the set is a field of data.objects_field around a
///            voxel of an object, with a label per pixel: whether it belongs to that object. In memory. Images that are
///            opened without labels are the whole ones of the file.
/// synthetic  patterns by class plus noise, or tubes in noise with a label per pixel, a function of (config, split,
///            seed, index)
const std::vector<DatasetFormat>& dataset_formats();

/// What a label of a synthetic set belongs to: data.synthetic_labels.
struct SyntheticLabels {
  const char* name;
  Fact<std::unique_ptr<Dataset> (*)(const ImageShape& shape, int classes, long size, Split split, std::uint64_t seed)>
      make;
};
const std::vector<SyntheticLabels>& synthetic_labels();

/// The format of what is at `path`: the first in the table that it may be of; nullptr if there is none.
const DatasetFormat* format_found_at(const std::filesystem::path& path);

/// `config` with the format and the path of what is at `path`, the rest as it was. Throws Error where there is nothing,
/// or nothing of a known format.
DataConfig data_at(const std::string& path, DataConfig config);

/// Opens the images of a set whose labels, where it has any, do not matter; with `part`, this part of each alone.
/// Throws Error as open_dataset does.
std::unique_ptr<Dataset> open_images(const DataConfig& config, Split split, const Warn& warn = {},
                                     const PartOf& part = {});

/// Opens the set that `config` describes. Throws Error naming the file, offset or index, what was found and what was
/// expected.
std::unique_ptr<Dataset> open_dataset(const DataConfig& config, Split split, std::uint64_t seed, const Warn& warn = {});

/// The same part of all images, and of their labels where these are one per pixel.
std::unique_ptr<Dataset> open_parts(const DataConfig& config, Split split, std::uint64_t seed, const Warn& warn,
                                    const PartOf& part);

}  // namespace halograd
