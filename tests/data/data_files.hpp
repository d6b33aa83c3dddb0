#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/error.hpp"

/// What the tests of the readers share: small files, and the message of a refusal.
namespace halograd::test {

using Bytes = std::vector<std::uint8_t>;

/// A folder of its own for one test, removed with it.
class Folder {
 public:
  Folder() {
    const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            (std::string("halograd_") + info->test_suite_name() + "_" + info->name() + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// Expects the call to throw Error with a message that holds every part.
template <class Call>
void expect_error(const Call& call, const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "message: " << error.what() << "\nlacks: " << part;
    return;
  }
  ADD_FAILURE() << "no error was thrown; expected one that says: " << parts.front();
}

}  // namespace halograd::test
