#include "io/object_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "hdf5/files.hpp"
#include "hdf5/objects.hpp"
#include "io/formats.hpp"
#include "io/origin_attributes.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

constexpr const char* dataset_name = "objects";

}  // namespace

ObjectFile::ObjectFile(std::string path, const ObjectFileHeader& header)
    : path_(std::move(path)), partial_(path_ + ".partial"), extents_(header.extents) {
  const Hdf5Session session;
  ::unlink(partial_.c_str());  // of a call that was killed
  const std::vector<hsize_t> extents(extents_.begin(), extents_.end());
  const std::size_t bytes =
      std::accumulate(extents_.begin(), extents_.end(), sizeof(std::uint32_t), std::multiplies<>());
  Hdf5File file = create_hdf5(partial_, 4 * mebibyte + bytes);
  write_origin(file, objects_format, objects_format_version, header, partial_);
  DatasetStorage storage;
  storage.chunk.push_back(1);
  for (std::size_t axis = 1; axis < extents.size(); ++axis)
    storage.chunk.push_back(std::min<hsize_t>(64, extents[axis]));
  storage.deflate = true;
  create_dataset(file, dataset_name, H5T_STD_U32LE, extents, partial_, storage);
  HALOGRAD_HDF5(file.close(), partial_, "file");
}

ObjectFile::~ObjectFile() {
  if (!published_) ::unlink(partial_.c_str());
}

void ObjectFile::write(std::uint64_t image, int begin, std::span<const std::uint32_t> labels) const {
  const Hdf5Session session;
  Hdf5File file = open_hdf5(partial_, H5F_ACC_RDWR);
  Hdf5Dataset dataset = open_hdf5_dataset(file, dataset_name, partial_);
  Hdf5Box box{std::vector<hsize_t>(extents_.size(), 0), {extents_.begin(), extents_.end()}};
  const std::uint64_t row =
      std::accumulate(extents_.begin() + 2, extents_.end(), std::uint64_t{1}, std::multiplies<>());
  box.start[0] = image;
  box.count[0] = 1;
  box.start[1] = static_cast<hsize_t>(begin);
  box.count[1] = labels.size() / row;
  write_box(dataset, H5T_NATIVE_UINT32, box, labels.data(), dataset_name, partial_);
  dataset.close();
  HALOGRAD_HDF5(file.close(), partial_, "file");
}

void ObjectFile::publish() {
  publish_file(partial_, path_);
  published_ = true;
}

}  // namespace halograd
