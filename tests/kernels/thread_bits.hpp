#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

/// Whether results depend on the number of threads: a disabled test of the same program writes them, bit for bit, and
/// runs in processes of its own with different numbers of threads.
namespace halograd {

/// Where such a test writes to.
class BitWriter {
 public:
  template <class T>
  void write(const std::vector<T>& values) {
    out_.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  }

 private:
  std::ofstream out_{std::getenv("HALOGRAD_TEST_BITS"), std::ios::binary};
};

inline std::string bits_with_threads(const std::string& test, int threads) {
  const std::string file = ::testing::TempDir() + "bits_" + test + '_' + std::to_string(::getpid());
  const std::string program = "/proc/" + std::to_string(::getpid()) + "/exe";
  const std::string command = "OMP_NUM_THREADS=" + std::to_string(threads) + " HALOGRAD_TEST_BITS='" + file + "' " +
                              program + " --gtest_filter=" + test + " --gtest_also_run_disabled_tests >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream in(file, std::ios::binary);
  std::string bits{std::istreambuf_iterator<char>(in), {}};
  std::remove(file.c_str());
  return bits;
}

/// `test` writes more than `bytes`.
inline void expect_same_bits_with_any_threads(const std::string& test, std::size_t bytes) {
  const std::string one = bits_with_threads(test, 1);
  ASSERT_GT(one.size(), bytes);
  EXPECT_TRUE(one == bits_with_threads(test, 1)) << "run to run";
  EXPECT_TRUE(one == bits_with_threads(test, 2)) << "two threads";
  EXPECT_TRUE(one == bits_with_threads(test, 3)) << "three threads";
  EXPECT_TRUE(one == bits_with_threads(test, 4)) << "four threads";
}

}  // namespace halograd
