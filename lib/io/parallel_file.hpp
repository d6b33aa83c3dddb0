#pragma once

#include <string>
#include <vector>

#include "hdf5/handles.hpp"
#include "io/checkpoint_layout.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// A checkpoint that all ranks read through MPI-IO. Each call is collective and throws Error on all ranks
/// where it failed on any, so that they close the file together; but where HDF5 itself keeps the others waiting for the
/// rank that failed, all ranks end with its message.
class ParallelFile {
 public:
  ParallelFile(const Communicator& comm, std::string path);

  /// Each rank its own row of a dataset: `buffers` are the row's parts. Throws Error naming dataset and row where a
  /// checksum is wrong.
  void read_rows(const ReplicaDataset& shape, const std::vector<Numbers>& buffers);

  void close();

 private:
  template <class Work>
  void together(const Work& work) const {
    constexpr double patience = 5;  // seconds
    comm_.together(work, patience);
  }

  Communicator comm_;
  std::string path_;
  Hdf5File file_;
};

}  // namespace halograd
