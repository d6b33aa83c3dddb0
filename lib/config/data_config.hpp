#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace halograd {

/// [data]: where the images are and how a batch is made of them.
struct DataConfig {
  std::string format = "idx";  ///< idx, cifar10, cifar100, hdf5, objects or synthetic
  std::string path;          ///< a folder (idx, cifar10, cifar100) or a file (hdf5, objects); relative to the run file
  std::vector<double> mean;  ///< per channel, in units of the largest value; empty: 0
  std::vector<double> standard_deviation;  ///< per channel, in units of the largest value; empty: 1
  int pad_crop = 0;                        ///< training images are padded by this many zeros, then cropped at random
  bool flip = false;                       ///< training images are mirrored left to right at random
  bool prefetch = true;                    ///< a thread prepares the next batches while this one is trained on
  int prefetch_batches = 2;                ///< batches that are kept ready
  // format = "hdf5": sets larger than memory
  std::string shuffle = "auto";             ///< auto, full, window, ring: which images may meet in a batch
  int shuffle_window = 32;                  ///< window: blocks (of about 1 MiB) that are shuffled together
  int readers = 2;                          ///< threads per rank that read blocks ahead
  std::uint64_t cache_memory = 1073741824;  ///< bytes of each of a rank's sets that are kept in memory
  std::string cache_folder;                 ///< on the node's own disk, shared by its ranks; empty: none
  double throttle_mb_per_second = 0;        ///< a test aid: file reads are slowed down to it; 0: as fast as they are
  // format = "objects": fields around the objects of volumes, which cache_memory has to hold
  std::vector<int> objects_field{24};  ///< extents of a field along the volumes' axes, or one number for all
  double objects_background = 0.1;     ///< share of fields that are centred on no object
  int objects_train = 1024;            ///< fields of the training set
  int objects_test = 128;              ///< fields of the test set
  // format = "synthetic": random images whose class can be learnt, for benchmarks and tests
  int synthetic_train = 1024;  ///< training images
  int synthetic_test = 256;    ///< test images
  std::vector<int> synthetic_shape{32, 32,
                                   3};  ///< height, width, channels; volumes have a depth before, rows no height
  int synthetic_classes = 10;
  std::string synthetic_labels = "image";  ///< one per image, or one per pixel
  bool operator==(const DataConfig&) const = default;
};

}  // namespace halograd
