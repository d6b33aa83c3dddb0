#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "nn/network.hpp"

namespace halograd {

/// Values that PyTorch gave, in HDF5 beside this file.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name)
      : file_(H5Fopen((HALOGRAD_SOURCE_DIR "/tests/nn/" + name).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)) {}
  ~GoldenFile() { H5Fclose(file_); }
  GoldenFile(const GoldenFile&) = delete;
  GoldenFile& operator=(const GoldenFile&) = delete;

  [[nodiscard]] std::vector<double> values(const std::string& path) const {
    const hid_t dataset = H5Dopen2(file_, path.c_str(), H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    std::vector<double> result(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, result.data()), 0) << path;
    H5Sclose(space);
    H5Dclose(dataset);
    return result;
  }

  /// The attribute `config` of the file or of one of its groups.
  [[nodiscard]] std::string config(const std::string& group = "/") const {
    const hid_t attribute = H5Aopen_by_name(file_, group.c_str(), "config", H5P_DEFAULT, H5P_DEFAULT);
    const hid_t type = H5Aget_type(attribute);
    char* text = nullptr;
    H5Aread(attribute, type, &text);
    std::string result = text;
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attribute);
    return result;
  }

 private:
  hid_t file_;
};

/// One flat buffer of a golden group, in the network's own order.
inline std::vector<float> flat(const GoldenFile& file, const std::string& group,
                               const std::vector<NamedTensor>& tensors) {
  std::vector<float> result;
  for (const NamedTensor& tensor : tensors) {
    const std::vector<double> values = file.values(group + "/" + tensor.layer + "/" + tensor.name);
    EXPECT_EQ(values.size(), tensor.size()) << tensor.layer << "/" << tensor.name;
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

inline void expect_close(const std::vector<float>& expected, const std::vector<float>& found, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], found[i], tolerance * std::max(1.0F, std::abs(expected[i]))) << what << " at " << i;
  }
}

}  // namespace halograd
