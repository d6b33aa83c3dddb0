#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/model_origin.hpp"
#include "kernels/shape.hpp"
#include "mpi/communicator.hpp"
#include "mpi/unwinding.hpp"

namespace halograd {

/// What a file of predictions says of itself, in attributes, and what its datasets are.
struct PredictionHeader : ModelOrigin {
  std::string loss;
  std::string dataset;                 ///< of the predictions: "scores" or "values"
  bool classes = false;                ///< whether there is a dataset `classes` as well
  std::vector<std::uint64_t> extents;  ///< (N, [[D,] H, W,] K)
  std::vector<std::string> names{};    ///< (N), where the images have names
};

/// A file of predictions (docs/file-formats.md) that all ranks write together: as `path`.partial, which publish()
/// renames; without it, the partial file is removed at the end, which is collective, except while an exception unwinds
/// this rank's stack.
class PredictionFile {
 public:
  /// Collective. Makes the file with all its metadata and room for all values. Throws Error on all ranks.
  PredictionFile(const Communicator& comm, std::string path, PredictionHeader header);
  ~PredictionFile();
  PredictionFile(const PredictionFile&) = delete;
  PredictionFile& operator=(const PredictionFile&) = delete;

  /// Each rank for itself: images first to first + count - 1, and their classes where the file has them.
  void write(long first, long count, std::span<const float> predictions, std::span<const std::int32_t> classes) const;
  /// The same of a part of an image, for files with predictions per pixel.
  void write_part(long image, const Box& part, std::span<const float> predictions,
                  std::span<const std::int32_t> classes) const;
  /// Collective. Flushes, closes and renames.
  void publish();

 private:
  struct Handles;  // HDF5's
  void create() const;
  /// Labels first to first + count - 1 along each of their axes.
  void write_labels(const std::vector<std::uint64_t>& first, const std::vector<std::uint64_t>& count,
                    std::span<const float> predictions, std::span<const std::int32_t> classes) const;

  Communicator comm_;
  std::string path_, partial_;
  PredictionHeader header_;
  std::unique_ptr<Handles> handles_;
  bool published_ = false;
  Unwinding unwinding_;
};

/// One line per image of a file of scores (N, K): its name or number, then the `top` classes of the largest scores with
/// them, the largest first. For one process. Written as `csv`.partial and renamed. Throws Error.
void write_top_classes(const std::string& predictions, const std::string& csv, int top,
                       const std::vector<std::string>& names);

}  // namespace halograd
