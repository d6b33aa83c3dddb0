#include "io/object_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <vector>

#include "data/data_files.hpp"
#include "hdf5/objects.hpp"
#include "kernels/error.hpp"

namespace halograd::object_file_test {
namespace {

using test::Folder;

ObjectFileHeader example() {
  return {{"runs/a/checkpoint.h5", "3", "ffn", 17, 2, "cells.h5", "halograd 1"}, {2, 5, 3, 4}};
}

TEST(ObjectFile, HoldsWhatIsWrittenPartByPart) {
  const Folder folder;
  const std::string path = (folder / "objects.h5").string();
  std::vector<std::uint32_t> all(2 * 5 * 3 * 4);
  std::iota(all.begin(), all.end(), 4294967000U);
  {
    ObjectFile file(path, example());
    const std::span<const std::uint32_t> values(all);
    file.write(1, 0, values.subspan(60));
    file.write(0, 2, values.subspan(24, 36));
    file.write(0, 0, values.subspan(0, 24));
    EXPECT_FALSE(std::filesystem::exists(path));
    file.publish();
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  const Hdf5Session session;
  const Hdf5File found = open_hdf5(path, H5F_ACC_RDONLY);
  require_format(found, "halograd objects", 1, path);
  EXPECT_EQ(read_string_attribute(found, "checkpoint", path), "runs/a/checkpoint.h5");
  EXPECT_EQ(read_string_attribute(found, "replica", path), "3");
  EXPECT_EQ(read_string_attribute(found, "network", path), "ffn");
  EXPECT_EQ(read_integer_attribute(found, "step", path), 17);
  EXPECT_EQ(read_integer_attribute(found, "epoch", path), 2);
  EXPECT_EQ(read_string_attribute(found, "data", path), "cells.h5");
  EXPECT_EQ(read_string_attribute(found, "versions", path), "halograd 1");
  const Hdf5Dataset dataset = open_hdf5_dataset(found, "objects", path);
  EXPECT_EQ(dataset_extents(dataset, "objects", path), (std::vector<hsize_t>{2, 5, 3, 4}));
  std::vector<std::uint32_t> values(all.size());
  read_dataset(dataset, H5T_NATIVE_UINT32, values.data(), "objects", path);
  EXPECT_EQ(values, all);
}

TEST(ObjectFile, LeavesNothingUnlessItIsPublished) {
  const Folder folder;
  const std::string path = (folder / "objects.h5").string();
  { const ObjectFile file(path, example()); }
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(ObjectFile((folder / "nowhere/objects.h5").string(), example()), Error);
}

}  // namespace
}  // namespace halograd::object_file_test
