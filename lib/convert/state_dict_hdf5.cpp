#include "convert/state_dict_hdf5.hpp"

#include <functional>
#include <numeric>

#include "hdf5/handles.hpp"
#include "kernels/error.hpp"

namespace halograd {

void write_state_dict_hdf5(const std::string& path, const StateDict& state, const std::string& network) {
  const auto lock = hdf5_session();
  std::size_t bytes = mebibyte + state.size() * 4096;
  for (const StateTensor& tensor : state) bytes += tensor.values.size() * 4 + tensor.integers.size() * 8;
  Hdf5File file = create_hdf5(path, H5F_LIBVER_V18, bytes);
  write_attribute(file, "format", std::string(state_dict_format), path);
  write_attribute(file, "format_version", state_dict_format_version, path);
  write_attribute(file, "network", network, path);
  for (const StateTensor& tensor : state) {
    const bool integers = !tensor.integers.empty();
    const Hdf5Dataset dataset(HALOGRAD_HDF5(
        H5Dcreate2(file, tensor.name.c_str(), integers ? H5T_STD_I64LE : H5T_IEEE_F32LE,
                   make_space({tensor.extents.begin(), tensor.extents.end()}), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        path, tensor.name));
    const void* values = integers ? static_cast<const void*>(tensor.integers.data()) : tensor.values.data();
    HALOGRAD_HDF5(
        H5Dwrite(dataset, integers ? H5T_NATIVE_INT64 : H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), path,
        tensor.name);
  }
  HALOGRAD_HDF5(file.close(), path, "file");
}

StateDict read_state_dict_hdf5(const std::string& path) {
  const auto lock = hdf5_session();
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  const Hdf5Group root = open_group(file, "/", path);
  StateDict state;
  for (const std::string& name : link_names(root, path)) {
    StateTensor& tensor = state.emplace_back();
    tensor.name = name;
    const Hdf5Dataset dataset = open_dataset(root, name, path);
    const Hdf5Type type(HALOGRAD_HDF5(H5Dget_type(dataset), path, name));
    const H5T_class_t kind = H5Tget_class(type);
    HALOGRAD_REQUIRE(kind == H5T_FLOAT || kind == H5T_INTEGER, path, ": ", name,
                     ": is of neither float nor integer type");
    for (const hsize_t extent : dataset_extents(dataset, name, path))
      tensor.extents.push_back(static_cast<long>(extent));
    const auto count = static_cast<std::size_t>(
        std::accumulate(tensor.extents.begin(), tensor.extents.end(), 1L, std::multiplies<>()));
    void* values = nullptr;
    if (kind == H5T_FLOAT) {
      tensor.values.resize(count);
      values = tensor.values.data();
    } else {
      tensor.integers.resize(count);
      values = tensor.integers.data();
    }
    HALOGRAD_HDF5(H5Dread(dataset, kind == H5T_FLOAT ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT64, H5S_ALL, H5S_ALL,
                          H5P_DEFAULT, values),
                  path, name);
  }
  return state;
}

}  // namespace halograd
