#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace halograd::test {

/// How a dataset's first axis is cut in a file that a test writes.
struct Storage {
  hsize_t chunk = 0;  ///< rows; 0: contiguous
  bool compressed = false;
};

/// An HDF5 file being written with the groups /train and /test; datasets are named by their path.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::filesystem::path& path)
      : id_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    for (const char* group : {"/train", "/test"})
      H5Gclose(H5Gcreate2(id_, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  ~Hdf5Writer() { H5Fclose(id_); }
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  [[nodiscard]] hid_t id() const { return id_; }

  template <class T>
  void add(const char* name, hid_t type, hid_t memory_type, const std::vector<hsize_t>& extents,
           const std::vector<T>& data, Storage storage = {}, const std::map<std::string, int>& attributes = {}) const {
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (storage.chunk > 0) {
      std::vector<hsize_t> chunks = extents;
      chunks[0] = storage.chunk;
      H5Pset_chunk(properties, static_cast<int>(chunks.size()), chunks.data());
      if (storage.compressed) H5Pset_deflate(properties, 6);
    }
    const hid_t dataset = H5Dcreate2(id_, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), 0);
    for (const auto& [key, value] : attributes) {
      const hid_t scalar = H5Screate(H5S_SCALAR);
      const hid_t attribute = H5Acreate2(dataset, key.c_str(), H5T_STD_I32LE, scalar, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, H5T_NATIVE_INT, &value);
      H5Aclose(attribute);
      H5Sclose(scalar);
    }
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
  }

  /// A dataset of one image a chunk, of which none is there.
  void add_unwritten(const char* name, hid_t type, const std::vector<hsize_t>& extents) const {
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const std::vector<hsize_t> chunk(extents.size(), 1);
    H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
    const hid_t dataset = H5Dcreate2(id_, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(dataset, 0);
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
  }

 private:
  hid_t id_;
};

}  // namespace halograd::test
