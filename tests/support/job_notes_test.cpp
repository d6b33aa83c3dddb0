#include "support/job_notes.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace halograd::job_notes_test {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(JobNotes, AreAppendedToTheFileThatIsNamed) {
  const std::string path = ::testing::TempDir() + "halograd_job_notes_" + std::to_string(getpid());
  setenv("HALOGRAD_JOB_NOTES", path.c_str(), 1);
  note_for_job("checkpoint 40");
  note_for_job("died 3 node7");
  unsetenv("HALOGRAD_JOB_NOTES");
  note_for_job("error");
  EXPECT_EQ(text_of(path), "checkpoint 40\ndied 3 node7\n");
  setenv("HALOGRAD_JOB_NOTES", "/nowhere/notes", 1);
  note_for_job("error");  // does no harm
  unsetenv("HALOGRAD_JOB_NOTES");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace halograd::job_notes_test
