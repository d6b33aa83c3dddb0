#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"

namespace halograd::test {

inline int rank_of(MPI_Comm comm = MPI_COMM_WORLD) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int ranks_of(MPI_Comm comm = MPI_COMM_WORLD) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  return ranks;
}

/// Waits for all ranks without holding a core: the tests run with more ranks than cores.
inline void meet(MPI_Comm comm = MPI_COMM_WORLD) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// Runs `action` on rank 0 while the others wait.
inline void on_root(const std::function<void()>& action) {
  meet();
  if (rank_of() == 0) action();
  meet();
}

/// A folder of this test program that no other uses, the same on all ranks; removed at the end of the object's life.
class Folder {
 public:
  Folder() {
    static int count = 0;
    std::array<int, 2> unique{static_cast<int>(::getpid()), ++count};
    MPI_Bcast(unique.data(), 2, MPI_INT, 0, MPI_COMM_WORLD);
    path_ = ::testing::TempDir() + "halograd_io_" + std::to_string(unique[0]) + "_" + std::to_string(unique[1]);
    on_root([&] { std::filesystem::create_directories(path_); });
  }
  ~Folder() {
    on_root([&] {
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
    });
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The message of the Error that `action` throws; empty where it throws none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A Python that has h5py; empty where there is none.
inline std::string python_with_h5py() {
  for (std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import h5py' 2>/dev/null").c_str()) == 0) return python;
  }
  return "";
}

/// Collective. Has tests/io/read_with_h5py.py check a file of so many rows on rank 0; skips where there is no h5py.
inline void check_with_h5py(const std::string& arguments, int rows = ranks_of()) {
  const std::string script = std::string(HALOGRAD_SOURCE_DIR "/tests/io/read_with_h5py.py");
  on_root([&] {
    const std::string python = python_with_h5py();
    if (python.empty()) GTEST_SKIP() << "no Python with h5py";
    const std::string command = python + " " + script + " " + arguments + " --ranks " + std::to_string(rows);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  });
}

/// Every text has to be in the message of the Error.
template <class Action>
void expect_error(Action&& action, const std::vector<std::string>& texts) {
  const std::string message = error_of(action);
  for (const std::string& text : texts) {
    EXPECT_NE(message.find(text), std::string::npos) << "rank " << rank_of() << ": no '" << text << "' in: " << message;
  }
}

}  // namespace halograd::test
