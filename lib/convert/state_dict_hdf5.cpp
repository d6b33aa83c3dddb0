#include "convert/state_dict_hdf5.hpp"

#include <functional>
#include <numeric>

#include "hdf5/objects.hpp"
#include "kernels/error.hpp"

namespace halograd {

void write_state_dict_hdf5(const std::string& path, const StateDict& state, const std::string& network) {
  const Hdf5Session session;
  std::size_t bytes = mebibyte + state.size() * 4096;
  for (const StateTensor& tensor : state) bytes += tensor.values.size() * 4 + tensor.integers.size() * 8;
  Hdf5File file = create_hdf5(path, bytes);
  write_attribute(file, "format", std::string(state_dict_format), path);
  write_attribute(file, "format_version", state_dict_format_version, path);
  write_attribute(file, "network", network, path);
  for (const StateTensor& tensor : state) {
    const bool integers = !tensor.integers.empty();
    const Hdf5Dataset dataset = create_dataset(file, tensor.name, integers ? H5T_STD_I64LE : H5T_IEEE_F32LE,
                                               {tensor.extents.begin(), tensor.extents.end()}, path);
    const void* values = integers ? static_cast<const void*>(tensor.integers.data()) : tensor.values.data();
    write_dataset(dataset, integers ? H5T_NATIVE_INT64 : H5T_NATIVE_FLOAT, values, tensor.name, path);
  }
  HALOGRAD_HDF5(file.close(), path, "file");
}

StateDict read_state_dict_hdf5(const std::string& path) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  const Hdf5Group root = open_group(file, "/", path);
  StateDict state;
  std::size_t bytes = 0;
  for (const std::string& name : link_names(root, path)) {
    StateTensor& tensor = state.emplace_back();
    tensor.name = name;
    const Hdf5Dataset dataset = open_hdf5_dataset(root, name, path);
    const H5T_class_t kind = H5Tget_class(dataset_type(dataset, name, path));
    HALOGRAD_REQUIRE(kind == H5T_FLOAT || kind == H5T_INTEGER, path, ": ", name,
                     ": has neither a float nor an integer type");
    require_held(dataset, kind == H5T_FLOAT ? sizeof(float) : sizeof(std::int64_t), name, path);
    for (const hsize_t extent : dataset_extents(dataset, name, path))
      tensor.extents.push_back(static_cast<long>(extent));
    const auto count = static_cast<std::size_t>(
        std::accumulate(tensor.extents.begin(), tensor.extents.end(), 1L, std::multiplies<>()));
    bytes += count * (kind == H5T_FLOAT ? sizeof(float) : sizeof(std::int64_t));
    require_held_together(file, bytes, "its tensors", path);
    if (kind == H5T_FLOAT) {
      tensor.values.resize(count);
      read_dataset(dataset, H5T_NATIVE_FLOAT, tensor.values.data(), name, path);
    } else {
      tensor.integers.resize(count);
      read_dataset(dataset, H5T_NATIVE_INT64, tensor.integers.data(), name, path);
    }
  }
  return state;
}

}  // namespace halograd
