#include "io/checkpoint_store.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/run_lock.hpp"
#include "kernels/error.hpp"

namespace halograd::checkpoint_store_test {
namespace {

namespace fs = std::filesystem;

class CheckpointStore : public ::testing::Test {
 protected:
  CheckpointStore() : folder_{::testing::TempDir() + "halograd_store_" + std::to_string(::getpid())} {
    fs::remove_all(folder_.path);
    prepare_checkpoints(folder_);
  }
  ~CheckpointStore() override { fs::remove_all(folder_.path); }
  void make(const std::string& name) const { std::ofstream(folder_.checkpoints() + "/" + name) << name; }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const std::string& path : stored_checkpoints(folder_)) found.push_back(fs::path(path).filename());
    return found;
  }
  const RunFolder folder_;
};

TEST_F(CheckpointStore, NewestFirstByTheirSteps) {
  for (const auto* name : {"step_00000900.h5", "step_00001000.h5", "step_00000001.h5", "step_123456789.h5"}) make(name);
  for (const auto* name : {"step_.h5", "step_12x.h5", "step_7.h5.damaged", "notes.txt", "other_00000001.h5"})
    make(name);
  const std::vector<std::string> expected{"step_123456789.h5", "step_00001000.h5", "step_00000900.h5",
                                          "step_00000001.h5"};
  EXPECT_EQ(names(), expected);
  EXPECT_EQ(folder_.checkpoint(1000), folder_.checkpoints() + "/step_00001000.h5");
  EXPECT_EQ(folder_.checkpoint(123456789), folder_.checkpoints() + "/step_123456789.h5");
}

TEST_F(CheckpointStore, KeepsTheNewestAndTheBest) {
  for (int step = 1; step <= 6; ++step) make(fs::path(folder_.checkpoint(step)).filename());
  remove_old_checkpoints(folder_, 2, folder_.checkpoint(3));
  const std::vector<std::string> expected{"step_00000006.h5", "step_00000005.h5", "step_00000003.h5"};
  EXPECT_EQ(names(), expected);
}

TEST_F(CheckpointStore, LinksAreReplacedAsAWhole) {
  make("step_00000001.h5");
  make("step_00000002.h5");
  EXPECT_EQ(link_target(folder_, folder_.newest()), "");
  for (const int step : {1, 2}) {
    point_link(folder_.newest(), folder_.checkpoint(step));
    EXPECT_EQ(link_target(folder_, folder_.newest()), folder_.checkpoint(step));
    std::string text;
    std::ifstream(folder_.newest()) >> text;
    EXPECT_EQ(text, fs::path(folder_.checkpoint(step)).filename());
  }
  EXPECT_EQ(fs::read_symlink(folder_.newest()), "checkpoints/step_00000002.h5") << "the folder may be moved";
}

TEST_F(CheckpointStore, HalfWrittenFilesAreRemovedAndDamagedOnesSetAside) {
  make("step_00000001.h5.partial");
  make("step_00000002.h5");
  prepare_checkpoints(folder_);
  set_aside(folder_.checkpoint(2), ".damaged");
  EXPECT_TRUE(names().empty());
  EXPECT_FALSE(fs::exists(folder_.checkpoint(1) + ".partial"));
  EXPECT_TRUE(fs::exists(folder_.checkpoint(2) + ".damaged"));
}

TEST_F(CheckpointStore, AFolderHasOneHolder) {
  {
    RunLock lock(folder_.path);
    EXPECT_TRUE(lock.held());
    lock.sign();
    try {
      const RunLock second(folder_.path);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("process " + std::to_string(::getpid())), std::string::npos)
          << error.what();
    }
  }
  EXPECT_TRUE(RunLock(folder_.path).held()) << "free again";
  EXPECT_TRUE(fs::exists(folder_.path + "/lock"));
}

TEST_F(CheckpointStore, TheLockEndsWithAKilledHolder) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const ::pid_t child = ::fork();
  if (child == 0) {
    RunLock lock(folder_.path);
    lock.sign();
    (void)!::write(pipe[1], "x", 1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
  EXPECT_THROW(RunLock{folder_.path}, Error);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(RunLock(folder_.path).held());
}

TEST_F(CheckpointStore, ALockThatWasNotSignedLeavesNothing) {
  { const RunLock lock(folder_.path); }
  EXPECT_FALSE(fs::exists(folder_.path + "/lock"));
}

}  // namespace
}  // namespace halograd::checkpoint_store_test
