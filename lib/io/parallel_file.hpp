#pragma once

#include <string>
#include <vector>

#include "hdf5/handles.hpp"
#include "io/checkpoint_layout.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// A checkpoint of which each rank reads its own row. Each call is collective and throws Error on all ranks where it
/// failed on any. Each rank opens the file by itself: HDF5's own collective calls, where memory runs out on one rank,
/// would keep the others waiting for it for ever.
class ParallelFile {
 public:
  ParallelFile(const Communicator& comm, std::string path);

  /// Each rank its own row of a dataset: `buffers` are the row's parts. Throws Error naming dataset and row where a
  /// checksum is wrong.
  void read_rows(const ReplicaDataset& shape, const std::vector<Numbers>& buffers);

  void close();

 private:
  Communicator comm_;
  std::string path_;
  Hdf5File file_;
};

}  // namespace halograd
