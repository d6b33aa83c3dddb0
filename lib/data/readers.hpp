#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/data_config.hpp"
#include "data/dataset.hpp"

/// The readers behind open_dataset, one file each. All throw Error as open_dataset does.
namespace halograd {

/// A folder that holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte, or one set of emnist-<split>-{train,test}-{images-idx3,labels-idx1}-ubyte; each plain or
/// with .gz. Classes are those of the training labels.
std::unique_ptr<Dataset> open_idx(const std::filesystem::path& folder, Split split);
/// The images of such a folder alone, or of one such file.
std::unique_ptr<Dataset> open_idx_images(const std::filesystem::path& path, Split split);
/// Whether a folder holds IDX images, or a file is one.
bool is_idx(const std::filesystem::path& path);

/// A folder that holds data_batch_1.bin to data_batch_5.bin and test_batch.bin (`classes` 10), or train.bin and
/// test.bin
/// (`classes` 100).
std::unique_ptr<Dataset> open_cifar(const std::filesystem::path& folder, Split split, int classes);
bool is_cifar_folder(const std::filesystem::path& folder, int classes);

/// A file with /train and /test groups at config.path; opened read-only by this process alone (no MPI-IO). With
/// `part`, nothing else is read of each image and of labels per pixel.
std::unique_ptr<Dataset> open_hdf5_images(const DataConfig& config, Split split, const Warn& warn, const PartOf& part);

/// /images of a file or else the images of that split, whatever else there is; of any size, as long as they are read
/// in parts.
std::unique_ptr<Dataset> open_hdf5_unlabelled(const DataConfig& config, Split split, const Warn& warn,
                                              const PartOf& part);

/// Fields of data.objects_field around the objects of such a file, with /train/objects and /test/objects in the place
/// of labels; a function of (seed, split, index). Volumes and objects are kept in memory.
std::unique_ptr<Dataset> open_objects(const DataConfig& config, Split split, std::uint64_t seed);
/// Whether a file is one of HDF5 that has objects and no labels.
bool is_objects_file(const std::filesystem::path& path);

/// Images made as they are read, by the synthetic_* keys.
std::unique_ptr<Dataset> make_synthetic(const DataConfig& config, Split split, std::uint64_t seed);

/// A row of synthetic_labels(): noisy tubes, each pixel labelled by whether it lies in one, which is 2 `classes`
/// always.
std::unique_ptr<Dataset> make_synthetic_volumes(const ImageShape& shape, int classes, long size, Split split,
                                                std::uint64_t seed);

}  // namespace halograd
