#include "support/text_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "kernels/error.hpp"

namespace halograd::text_file_test {
namespace {

std::string refusal_of(void (*action)()) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TextFile, ComesBackByteForByte) {
  const std::string path = ::testing::TempDir() + "halograd_text_file_" + std::to_string(getpid());
  const std::string text("a\r\n\0b\n", 6);
  write_text(path, "longer than what follows");
  write_text(path, text);
  EXPECT_EQ(read_text(path), text);
  std::remove(path.c_str());
}

TEST(TextFile, RefusalsNameTheFile) {
  EXPECT_EQ(refusal_of([] { write_text("no/folder/file", "x"); }),
            "no/folder/file: cannot be written: No such file or directory");
  EXPECT_EQ(refusal_of([] { write_text("/dev/full", "x"); }), "/dev/full: cannot be written: No space left on device");
  EXPECT_EQ(refusal_of([] { (void)read_text("no/folder/file"); }),
            "no/folder/file: cannot be opened: No such file or directory");
  EXPECT_EQ(refusal_of([] { (void)read_text("/"); }), "/: is a folder, expected a file");
}

}  // namespace
}  // namespace halograd::text_file_test
