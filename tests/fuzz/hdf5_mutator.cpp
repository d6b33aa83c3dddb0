#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "hdf5/objects.hpp"
#include "kernels/error.hpp"
#include "support/text_file.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

/// How libFuzzer changes inputs: HDF5 files by HDF5 itself, so that each is one that HDF5 can read, with attributes,
/// extents, types and values that a reader may not expect. With changed bytes libFuzzer would find HDF5's own faults,
/// which are many, in seconds.
namespace halograd::fuzz {
namespace {

using Random = std::minstd_rand;

template <class Values>
auto any(const Values& values, Random& random) {
  return values[random() % std::size(values)];
}

constexpr std::array<std::int64_t, 12> integers{0,
                                                1,
                                                2,
                                                3,
                                                4,
                                                -1,
                                                10,
                                                255,
                                                256,
                                                std::int64_t{1} << 31U,
                                                std::numeric_limits<std::int64_t>::max(),
                                                std::numeric_limits<std::int64_t>::min()};
constexpr std::array<double, 7> numbers{
    0, 1, -1, 0.5, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
constexpr std::array<hsize_t, 10> extents{0, 1, 2, 3, 4, 8, 65535, 100000, hsize_t{1} << 33U, hsize_t{1} << 62U};

/// H5Lvisit and its structures have versions, of which HDF5's header chooses one.
std::vector<std::string> objects_of(const Hdf5File& file) {
  std::vector<std::string> names{"/"};
  const auto add = [](hid_t, const char* name, const auto*, void* all) {
    static_cast<std::vector<std::string>*>(all)->push_back(name);
    return herr_t{0};
  };
  H5Lvisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, add, &names);
  return names;
}

std::vector<std::string> attributes_of(hid_t object) {
  std::vector<std::string> names{"classes", "maximum", "crc32", "metric"};
  H5Aiterate2(
      object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr,
      [](hid_t, const char* name, const H5A_info_t*, void* all) {
        static_cast<std::vector<std::string>*>(all)->push_back(name);
        return herr_t{0};
      },
      &names);
  return names;
}

void change_attribute(hid_t object, Random& random) {
  const std::string name = any(attributes_of(object), random), file = "fuzz";
  H5Adelete(object, name.c_str());
  switch (random() % 5) {
    case 0:
      return;
    case 1:
      return write_attribute(object, name, any(integers, random), file);
    case 2:
      return write_attribute(object, name, any(numbers, random), file);
    case 3:
      return write_attribute(object, name, std::string(random() % 4, 'x'), file);
    default:
      return write_attribute(object, name, std::vector<std::uint32_t>(random() % 4), file);
  }
}

/// Another dataset in the place of this one.
void change_dataset(const Hdf5File& file, const std::string& name, Random& random) {
  const std::array<hid_t, 7> types{H5T_STD_U8LE,   H5T_STD_I32LE, H5T_STD_I64LE, H5T_IEEE_F32LE,
                                   H5T_IEEE_F64LE, H5T_STD_I32BE, H5T_C_S1};
  std::vector<hsize_t> shape;
  const bool grows = random() % 2 == 0;  // else it takes its room at once
  for (std::size_t axis = random() % 6; axis > 0; --axis)
    shape.push_back(any(std::span(extents).first(grows ? extents.size() : 6), random));
  DatasetStorage storage;
  if (grows) {
    storage.chunk.assign(shape.size(), 2);
    storage.most.assign(shape.size(), H5S_UNLIMITED);
  }
  H5Ldelete(file, name.c_str(), H5P_DEFAULT);
  create_dataset(file, name, any(types, random), shape, "fuzz", storage);
}

/// Other extents along one axis, or another value, in a dataset that stays.
void change_inside(const Hdf5Dataset& dataset, Random& random) {
  std::vector<hsize_t> shape = dataset_extents(dataset, "dataset", "fuzz");
  // HDF5 would look at each chunk that leaves a large one
  if (std::any_of(shape.begin(), shape.end(), [](hsize_t extent) { return extent > 16; })) return;
  if (!shape.empty() && random() % 2 == 0) {
    shape[random() % shape.size()] = any(extents, random);
    H5Dset_extent(dataset, shape.data());
    return;
  }
  Hdf5Box box;
  for (const hsize_t extent : shape) box.start.push_back(extent == 0 ? 0 : random() % extent);
  box.count.assign(shape.size(), 1);
  const double value = random() % 2 == 0 ? any(numbers, random) : static_cast<double>(any(integers, random));
  if (!shape.empty()) write_box(dataset, H5T_NATIVE_DOUBLE, box, &value, "dataset", "fuzz");
}

void change(const std::string& path, Random& random) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDWR);
  const std::string name = any(objects_of(file), random);
  const Hdf5Handle<H5Oclose> object(H5Oopen(file, name.c_str(), H5P_DEFAULT));
  const bool is_dataset = H5Iget_type(object) == H5I_DATASET;
  const unsigned kind = random() % 8;
  if (kind < 3 || !is_dataset) change_attribute(object, random);
  if (kind == 3 && is_dataset) H5Ldelete(file, name.c_str(), H5P_DEFAULT);
  if (kind == 4 && is_dataset) change_dataset(file, name, random);
  if (kind > 4 && is_dataset) change_inside(open_hdf5_dataset(file, name, path), random);
}

}  // namespace
}  // namespace halograd::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  constexpr std::array<std::uint8_t, 4> signature{0x89, 'H', 'D', 'F'};
  if (size < signature.size() || !std::equal(signature.begin(), signature.end(), data))
    return LLVMFuzzerMutate(data, size, most);
  namespace fs = std::filesystem;
  static const std::string path =
      (fs::temp_directory_path() / ("halograd_mutant_" + std::to_string(::getpid()))).string();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  halograd::fuzz::Random random(seed);
  try {
    halograd::fuzz::change(path, random);
  } catch (const halograd::Error&) {  // as it was, or half changed
  }
  const std::string changed = halograd::read_text(path);
  fs::remove(path);
  if (changed.size() > most) return size;
  std::copy(changed.begin(), changed.end(), reinterpret_cast<char*>(data));
  return changed.size();
}
