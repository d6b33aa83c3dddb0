#include "io/prediction_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "data/sharding.hpp"
#include "hdf5/objects.hpp"
#include "tests/io/mpi_helpers.hpp"

namespace halograd::prediction_file_mpi_test {
namespace {

using namespace test;

PredictionHeader example(std::vector<std::uint64_t> extents) {
  PredictionHeader header;
  header.checkpoint = "runs/a/checkpoint.h5";
  header.replica = "mean";
  header.network = "net";
  header.step = 17;
  header.data = "photos";
  header.loss = "cross_entropy";
  header.dataset = "scores";
  header.classes = true;
  header.extents = std::move(extents);
  return header;
}

/// Value i of all is i, and so is the class of label i; each rank writes its share, two images at a time.
void write_share(const PredictionFile& file, long images, std::size_t labels, std::size_t width) {
  const Range share = share_of(images, rank_of(), ranks_of());
  for (long first = share.begin; first < share.end; first += 2) {
    const long count = std::min(2L, share.end - first);
    std::vector<float> values(static_cast<std::size_t>(count) * labels * width);
    std::vector<std::int32_t> classes(static_cast<std::size_t>(count) * labels);
    std::iota(values.begin(), values.end(), static_cast<float>(static_cast<std::size_t>(first) * labels * width));
    std::iota(classes.begin(), classes.end(), static_cast<std::int32_t>(static_cast<std::size_t>(first) * labels));
    file.write(first, count, values, classes);
  }
}

TEST(PredictionFile, HoldsWhatTheRanksHaveWritten) {
  const Folder folder;
  for (const std::vector<std::uint64_t>& extents :
       {std::vector<std::uint64_t>{13, 3}, std::vector<std::uint64_t>{5, 4, 2, 3}}) {
    const std::size_t labels = extents.size() == 2 ? 1 : 8;
    const std::string path = folder.file("out.h5");
    PredictionFile file(MPI_COMM_WORLD, path, example(extents));
    write_share(file, static_cast<long>(extents[0]), labels, 3);
    file.publish();
    EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
    const Hdf5Session session;
    const Hdf5File found = open_hdf5(path, H5F_ACC_RDONLY);
    EXPECT_EQ(read_string_attribute(found, "format", path), "halograd predictions");
    EXPECT_EQ(read_string_attribute(found, "checkpoint", path), "runs/a/checkpoint.h5");
    EXPECT_EQ(read_integer_attribute(found, "step", path), 17);
    const Hdf5Dataset scores = open_hdf5_dataset(found, "scores", path),
                      classes = open_hdf5_dataset(found, "classes", path);
    EXPECT_EQ(dataset_extents(scores, "scores", path), std::vector<hsize_t>(extents.begin(), extents.end()));
    EXPECT_EQ(dataset_extents(classes, "classes", path), std::vector<hsize_t>(extents.begin(), extents.end() - 1));
    std::vector<float> values(extents[0] * labels * 3), expected(values.size());
    std::iota(expected.begin(), expected.end(), 0.0F);
    read_dataset(scores, H5T_NATIVE_FLOAT, values.data(), "scores", path);
    EXPECT_EQ(values, expected);
    meet();
  }
}

/// Parts of one image, in the order of a checkerboard; value i of all is i.
TEST(PredictionFile, HoldsThePartsThatRanksHaveWritten) {
  const Folder folder;
  const std::string path = folder.file("out.h5");
  const Shape shape(4, 6, 2, 3);  // of an image of predictions
  PredictionFile file(MPI_COMM_WORLD, path, example({2, 4, 6, 2, 3}));
  for (int part = 0; part < 16; ++part) {
    if (part % ranks_of() != rank_of()) continue;
    const int image = part / 8, depth = part / 4 % 2 * 2, height = part / 2 % 2 * 3, width = part % 2;
    const Box box{{depth, height, width}, {depth + 2, height + 3, width + 1}};
    std::vector<float> values;
    std::vector<std::int32_t> classes;
    for_each_row(shape, box, [&](long from, long /*to*/, long pixels) {
      for (long pixel = image * shape.pixels() + from; pixels > 0; --pixels, ++pixel) {
        classes.push_back(static_cast<std::int32_t>(pixel));
        for (int k = 0; k < 3; ++k) values.push_back(static_cast<float>(3 * pixel + k));
      }
    });
    file.write_part(image, box, values, classes);
  }
  file.publish();
  const Hdf5Session session;
  const Hdf5File found = open_hdf5(path, H5F_ACC_RDONLY);
  std::vector<float> scores(2 * 48 * 3), expected_scores(scores.size());
  std::vector<std::int32_t> classes(2 * 48), expected_classes(classes.size());
  std::iota(expected_scores.begin(), expected_scores.end(), 0.0F);
  std::iota(expected_classes.begin(), expected_classes.end(), 0);
  read_dataset(open_hdf5_dataset(found, "scores", path), H5T_NATIVE_FLOAT, scores.data(), "scores", path);
  read_dataset(open_hdf5_dataset(found, "classes", path), H5T_NATIVE_INT32, classes.data(), "classes", path);
  EXPECT_EQ(scores, expected_scores);
  EXPECT_EQ(classes, expected_classes);
  meet();
}

TEST(PredictionFile, IsRemovedWhereItIsNotPublished) {
  const Folder folder;
  {
    const PredictionFile file(MPI_COMM_WORLD, folder.file("out.h5"), example({4, 3}));
    EXPECT_TRUE(std::filesystem::exists(folder.file("out.h5.partial")));
    meet();
  }
  meet();
  EXPECT_FALSE(std::filesystem::exists(folder.file("out.h5.partial")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("out.h5")));
  expect_error(
      [&] {
        PredictionFile(MPI_COMM_WORLD, folder.file("nowhere/out.h5"), example({4, 3}));
      },
      {"nowhere/out.h5"});
}

TEST(PredictionFile, WhoFailsAloneDoesNotWaitForTheOthers) {
  const Folder folder;
  try {
    const PredictionFile file(MPI_COMM_WORLD, folder.file("out.h5"), example({4, 3}));
    if (rank_of() > 0) meet();
    throw Error("this rank alone");
  } catch (const Error&) {
    if (rank_of() == 0) meet();
  }
}

TEST(PredictionFile, TableHoldsTheBestClassesOfEachImage) {
  const Folder folder;
  PredictionHeader header = example({2, 3});
  PredictionFile file(MPI_COMM_WORLD, folder.file("out.h5"), header);
  if (rank_of() == 0)
    file.write(0, 2, std::vector<float>{0.25F, 0.5F, 0.25F, 0.125F, 0.0F, 0.875F}, std::vector<std::int32_t>{1, 2});
  file.publish();
  on_root([&] {
    write_top_classes(folder.file("out.h5"), folder.file("out.csv"), 2, {"a.png", "b, \"c\".png"});
    std::ifstream table(folder.file("out.csv"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(table), {}),
              "image,class1,score1,class2,score2\na.png,1,0.5,0,0.25\n\"b, \"\"c\"\".png\",2,0.875,0,0.125\n");
  });
}

}  // namespace
}  // namespace halograd::prediction_file_mpi_test
