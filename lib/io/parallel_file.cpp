#include "io/parallel_file.hpp"

#include "hdf5/objects.hpp"
#include "kernels/error.hpp"

namespace halograd {

ParallelFile::ParallelFile(const Communicator& comm, std::string path) : comm_(comm), path_(std::move(path)) {
  const Hdf5Session session;
  comm_.together([&] { file_ = open_hdf5(path_, H5F_ACC_RDONLY); });
}

void ParallelFile::read_rows(const ReplicaDataset& shape, const std::vector<Numbers>& buffers) {
  const Hdf5Session session;
  Hdf5Dataset dataset;
  std::vector<std::uint32_t> expected;
  comm_.together([&] {
    dataset = open_hdf5_dataset(file_, shape.path, path_);
    expected = read_row_checksums(dataset, shape.path, shape.ranks, path_);
  });
  std::uint32_t crc = 0;
  for (std::size_t part = 0; part < buffers.size(); ++part) {
    comm_.together(
        [&] { read_part(dataset, shape, comm_.rank(), static_cast<std::int64_t>(part), buffers[part], path_); });
    crc = checksum(bytes_of(buffers[part]), crc);
  }
  comm_.together([&] {
    HALOGRAD_REQUIRE(crc == expected[comm_.rank()], path_, ": ", shape.path, ", row ", comm_.rank(),
                     ": the checksum is wrong; the file is damaged");
  });
}

void ParallelFile::close() {
  const Hdf5Session session;
  comm_.together([&] { HALOGRAD_HDF5(file_.close(), path_, "file"); });
}

}  // namespace halograd
