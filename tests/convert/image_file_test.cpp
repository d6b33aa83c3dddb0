#include "convert/image_file.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <functional>

#include "data/data_files.hpp"

namespace halograd::image_file_test {
namespace {

using test::Bytes;
using test::expect_error;
using test::Folder;
using test::write_bytes;

// 16 x 8 pixels: red 10x + 20, green 20y + 30, blue 255 - 10x - 5y; and 12x + 5y in grey. Written by Pillow.
// clang-format off
const Bytes colour_jpeg{
    255, 216, 255, 224, 0, 16, 74, 70, 73, 70, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 255, 219, 0, 67,
    0, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 2, 2, 2, 2, 2, 4, 3, 2, 2, 2, 2, 5, 4,
    4, 3, 4, 6, 5, 6, 6, 6, 5, 6, 6, 6, 7, 9, 8, 6, 7, 9, 7, 6, 6, 8, 11, 8,
    9, 10, 10, 10, 10, 10, 6, 8, 11, 12, 11, 10, 12, 9, 10, 10, 10, 255, 219, 0, 67, 1, 2, 2,
    2, 2, 2, 2, 5, 3, 3, 5, 10, 7, 6, 7, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
    10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
    10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 255, 192, 0, 17, 8, 0, 8, 0, 16, 3,
    1, 17, 0, 2, 17, 1, 3, 17, 1, 255, 196, 0, 21, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 6, 7, 255, 196, 0, 30, 16, 0, 0, 4, 7, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 6, 8, 50, 5, 17, 18, 33, 37, 114, 129, 255, 196, 0, 21, 1, 1, 1, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 7, 255, 196, 0, 27, 17, 0, 1, 4, 3,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 6, 7, 34, 33, 50, 161, 255, 218, 0, 12,
    3, 1, 0, 2, 17, 3, 17, 0, 63, 0, 132, 23, 145, 155, 113, 87, 208, 58, 223, 178, 158, 247, 233, 4,
    101, 73, 57, 77, 199, 101, 212, 102, 217, 66, 121, 64, 20, 191, 101, 61, 239, 209, 114, 202, 146, 112, 155, 159,
    255, 217,
};
const Bytes grey_jpeg{
    255, 216, 255, 224, 0, 16, 74, 70, 73, 70, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 255, 219, 0, 67,
    0, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 2, 2, 2, 2, 2, 4, 3, 2, 2, 2, 2, 5, 4,
    4, 3, 4, 6, 5, 6, 6, 6, 5, 6, 6, 6, 7, 9, 8, 6, 7, 9, 7, 6, 6, 8, 11, 8,
    9, 10, 10, 10, 10, 10, 6, 8, 11, 12, 11, 10, 12, 9, 10, 10, 10, 255, 192, 0, 11, 8, 0, 8,
    0, 16, 1, 1, 17, 0, 255, 196, 0, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 9, 255, 196, 0, 26, 16, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 7, 8, 36, 52, 65, 82, 255, 218, 0, 8, 1, 1, 0, 0, 63, 0, 59, 81, 33, 73, 17, 174,
    104, 48, 8, 144, 164, 136, 215, 52, 63, 255, 217,
};
// clang-format on

void append_number(Bytes& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
}

void append_part(Bytes& file, const std::string& kind, const Bytes& data) {
  append_number(file, static_cast<std::uint32_t>(data.size()));
  Bytes checked(kind.begin(), kind.end());
  checked.insert(checked.end(), data.begin(), data.end());
  file.insert(file.end(), checked.begin(), checked.end());
  append_number(file, static_cast<std::uint32_t>(crc32_z(0, checked.data(), checked.size())));
}

/// A PNG file of rows as they are stored: colour type 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha.
Bytes png(int height, int width, int depth, int colour_type, const Bytes& rows, const Bytes& palette = {}) {
  Bytes header, lines, packed(rows.size() + 1000);
  append_number(header, static_cast<std::uint32_t>(width));
  append_number(header, static_cast<std::uint32_t>(height));
  for (const int value : {depth, colour_type, 0, 0, 0}) header.push_back(static_cast<std::uint8_t>(value));
  const std::size_t row = rows.size() / static_cast<std::size_t>(height);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    lines.push_back(0);
    lines.insert(lines.end(), rows.begin() + static_cast<long>(y * row),
                 rows.begin() + static_cast<long>((y + 1) * row));
  }
  uLongf size = packed.size();
  EXPECT_EQ(compress(packed.data(), &size, lines.data(), lines.size()), Z_OK);
  packed.resize(size);
  Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  append_part(file, "IHDR", header);
  if (!palette.empty()) append_part(file, "PLTE", palette);
  append_part(file, "IDAT", packed);
  append_part(file, "IEND", {});
  return file;
}

class ImageFile : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      read(png(1, 1, 8, 0, {7}));
    } catch (const Error& error) {
      if (std::string(error.what()).find("built without") != std::string::npos) GTEST_SKIP() << error.what();
      throw;
    }
  }
  Image read(const Bytes& bytes, const char* name = "a.png") {
    write_bytes(folder_ / name, bytes);
    return read_image(folder_ / name);
  }
  Folder folder_;
};

/// Within 4 of what was compressed: so far is Pillow's own decoding of these files from it.
void expect_near(const Image& image, const std::function<int(int, int, int)>& expected) {
  for (int y = 0, i = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      for (int c = 0; c < image.channels; ++c, ++i)
        ASSERT_NEAR(image.values[static_cast<std::size_t>(i)], expected(y, x, c), 4) << y << " " << x << " " << c;
}

TEST_F(ImageFile, ReadsPngOfEveryKind) {
  const Image grey = read(png(2, 3, 8, 0, {0, 1, 2, 250, 251, 255}));
  EXPECT_EQ(grey.height, 2);
  EXPECT_EQ(grey.width, 3);
  EXPECT_EQ(grey.channels, 1);
  EXPECT_EQ(grey.values, (Bytes{0, 1, 2, 250, 251, 255}));
  const Image colour = read(png(1, 2, 8, 2, {1, 2, 3, 200, 100, 50}));
  EXPECT_EQ(colour.channels, 3);
  EXPECT_EQ(colour.values, (Bytes{1, 2, 3, 200, 100, 50}));
  EXPECT_EQ(read(png(1, 4, 2, 3, {0b00011011}, {9, 8, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0})).values,
            (Bytes{9, 8, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0}));
  const Image clear =
      read(png(1, 2, 8, 6, {10, 20, 30, 255, 10, 20, 30, 0}));  // the second pixel shows the white behind
  EXPECT_EQ(clear.values, (Bytes{10, 20, 30, 255, 255, 255}));
}

TEST_F(ImageFile, ReadsJpeg) {
  const Image colour = read(colour_jpeg, "a.jpg");
  ASSERT_EQ((std::vector<int>{colour.height, colour.width, colour.channels}), (std::vector<int>{8, 16, 3}));
  expect_near(colour, [](int y, int x, int c) {
    return c == 0 ? 10 * x + 20 : c == 1 ? 20 * y + 30 : 255 - 10 * x - 5 * y;
  });
  const Image grey = read(grey_jpeg, "misnamed.png");  // its content counts
  ASSERT_EQ((std::vector<int>{grey.height, grey.width, grey.channels}), (std::vector<int>{8, 16, 1}));
  expect_near(grey, [](int y, int x, int) { return 12 * x + 5 * y; });
}

TEST_F(ImageFile, RefusesWhatIsCutShortOrDamaged) {
  Bytes rows(64 * 64);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint8_t>(i * i >> 3U);
  const Bytes whole = png(64, 64, 8, 0, rows);
  for (const std::size_t size : {std::size_t{4}, std::size_t{20}, std::size_t{60}, whole.size() / 2})
    expect_error([&] { read({whole.begin(), whole.begin() + static_cast<long>(size)}); }, {"a.png"});
  Bytes flipped = whole;
  flipped[whole.size() / 2] ^= 0xff;
  expect_error([&] { read(flipped); }, {"a.png", "damaged"});
  expect_error([&] { read({colour_jpeg.begin(), colour_jpeg.end() - 20}, "a.jpg"); }, {"a.jpg", "damaged"});
  expect_error(
      [&] {
        read({colour_jpeg.begin(), colour_jpeg.begin() + 10}, "a.jpg");
      },
      {"a.jpg", "not a complete JPEG"});
  expect_error([&] { read({'G', 'I', 'F', '8'}, "a.jpg"); }, {"a.jpg", "neither a PNG nor a JPEG"});
  expect_error([&] { read({}, "a.jpg"); }, {"a.jpg", "empty"});
  expect_error([&] { read_image(folder_ / "nowhere.png"); }, {"nowhere.png", "cannot be opened"});
}

TEST(Resized, ShrinksToMeansAndGrowsLinearly) {
  const Image image{2, 4, 1, {0, 10, 20, 31, 40, 50, 60, 71}};
  EXPECT_EQ(resized(image, 1, 2).values, (Bytes{25, 46}));                        // 45.5 is rounded away from zero
  EXPECT_EQ(resized(Image{1, 3, 1, {0, 90, 30}}, 1, 2).values, (Bytes{30, 50}));  // two thirds and one third
  EXPECT_EQ(resized(Image{1, 2, 1, {0, 100}}, 1, 4).values, (Bytes{0, 25, 75, 100}));
  EXPECT_EQ(resized(Image{1, 1, 3, {1, 2, 3}}, 2, 1).values, (Bytes{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(resized(image, 2, 4).values, image.values);
}

TEST(WithChannels, WeighsColoursAndRepeatsGrey) {
  EXPECT_EQ(with_channels(Image{1, 3, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255}}, 1).values, (Bytes{76, 150, 29}));
  EXPECT_EQ(with_channels(Image{1, 2, 1, {5, 6}}, 3).values, (Bytes{5, 5, 5, 6, 6, 6}));
}

}  // namespace
}  // namespace halograd::image_file_test
