#include "data/block_cache.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

#include "data/data_files.hpp"
#include "data/read_ahead.hpp"
#include "kernels/error.hpp"

namespace halograd::block_cache_test {
namespace {

using test::Folder;
namespace fs = std::filesystem;

constexpr std::size_t row_bytes = 100;

/// 95 rows of 100 bytes in blocks of 10; counts what is read of it.
class NumberedSource final : public BlockSource {
 public:
  explicit NumberedSource(std::string state = "1", std::uint8_t first = 0, long broken = -1)
      : state_(std::move(state)), first_(first), broken_(broken) {}
  [[nodiscard]] BlockLayout layout() const override { return {95, 10, row_bytes}; }
  void read(long first, long count, std::uint8_t* out) const override {
    ++reads;
    HALOGRAD_REQUIRE(broken_ < first || broken_ >= first + count, "row ", broken_, " is broken");
    for (long i = 0; i < count; ++i)
      std::fill_n(out + i * row_bytes, row_bytes, static_cast<std::uint8_t>(first_ + first + i));
  }
  [[nodiscard]] std::string identity() const override { return name() + " " + state_; }
  [[nodiscard]] std::string name() const override { return "numbered"; }
  mutable std::atomic<int> reads = 0;

 private:
  std::string state_;
  std::uint8_t first_;
  long broken_;
};

struct Warnings {
  std::vector<std::string> texts;
  Warn warn = [this](const std::string& text) { texts.push_back(text); };
};

void expect_all_blocks(const BlockCache& cache, int first = 0) {
  for (long block = 0; block < 10; ++block) {
    const Block bytes = cache.get(block);
    ASSERT_EQ(bytes->size(), (block == 9 ? 5 : 10) * row_bytes);
    EXPECT_EQ(bytes->front(), first + 10 * block);
    EXPECT_EQ(bytes->back(), first + std::min(94L, 10 * block + 9));
  }
}

fs::path only_subfolder(const fs::path& folder) {
  const fs::directory_iterator entry(folder);
  return entry->path();
}

TEST(BlockCache, KeepsWhatFitsIntoMemory) {
  const NumberedSource source;
  const BlockCache cache(source, 3500, "", {});  // three blocks of 1000 bytes, and the last one of 500
  for (int round = 0; round < 3; ++round) expect_all_blocks(cache);
  EXPECT_EQ(source.reads, 10 + 2 * 6);
  EXPECT_TRUE(cache.keeps(0));
  EXPECT_FALSE(cache.keeps(5));
}

TEST(BlockCache, ProcessesShareTheNodesDisk) {
  const Folder folder;
  const NumberedSource source;
  Warnings warnings;
  const BlockCache first(source, 0, folder.path(), warnings.warn);
  const BlockCache second(source, 0, folder.path(), warnings.warn);
  expect_all_blocks(first);
  EXPECT_EQ(source.reads, 10);
  expect_all_blocks(second);
  EXPECT_EQ(source.reads, 10);
  const BlockCache later(source, 10000, folder.path(), warnings.warn);
  expect_all_blocks(later);
  fs::remove_all(only_subfolder(folder.path()));
  expect_all_blocks(later);  // from memory
  EXPECT_EQ(source.reads, 10);
  EXPECT_TRUE(warnings.texts.empty());
}

TEST(BlockCache, DropsBlocksOfAnOlderStateOfTheData) {
  const Folder folder;
  Warnings warnings;
  const NumberedSource old("1", 0), changed("2", 100);
  expect_all_blocks(BlockCache(old, 0, folder.path(), warnings.warn));
  const BlockCache cache(changed, 0, folder.path(), warnings.warn);
  expect_all_blocks(cache, 100);
  EXPECT_EQ(changed.reads, 10);
  ASSERT_EQ(warnings.texts.size(), 1U);
  EXPECT_NE(warnings.texts[0].find("older state"), std::string::npos) << warnings.texts[0];
}

TEST(BlockCache, ReadsADamagedOrCutBlockAgain) {
  const Folder folder;
  const NumberedSource source;
  Warnings warnings;
  expect_all_blocks(BlockCache(source, 0, folder.path(), warnings.warn));
  const fs::path blocks = only_subfolder(folder.path());
  fs::resize_file(blocks / "block-3", 900);
  {
    std::fstream file(blocks / "block-5", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(17);
    file.put('x');
  }
  const BlockCache cache(source, 0, folder.path(), warnings.warn);
  expect_all_blocks(cache);
  EXPECT_EQ(source.reads, 10 + 2);
  const BlockCache mended(source, 0, folder.path(), warnings.warn);
  expect_all_blocks(mended);
  EXPECT_EQ(source.reads, 10 + 2);
}

TEST(BlockCache, LeavesAFolderOfSomebodyElseAlone) {
  const Folder folder;
  const NumberedSource source;
  Warnings warnings;
  expect_all_blocks(BlockCache(source, 0, folder.path(), warnings.warn));
  const fs::path blocks = only_subfolder(folder.path());
  test::write_bytes(blocks / "thesis.txt", {'a'});
  const BlockCache cache(source, 0, folder.path(), warnings.warn);
  expect_all_blocks(cache);
  EXPECT_EQ(source.reads, 10 + 10);
  ASSERT_EQ(warnings.texts.size(), 1U);
  EXPECT_NE(warnings.texts[0].find("thesis.txt"), std::string::npos) << warnings.texts[0];
  EXPECT_TRUE(fs::exists(blocks / "thesis.txt"));
}

TEST(BlockCache, GoesOnWithoutAFolderThatIsMissing) {
  const Folder folder;
  const NumberedSource source;
  Warnings warnings;
  const BlockCache cache(source, 0, folder / "nowhere", warnings.warn);
  expect_all_blocks(cache);
  expect_all_blocks(cache);
  EXPECT_EQ(source.reads, 10 + 10);
  ASSERT_EQ(warnings.texts.size(), 1U);
  for (const char* part : {"data.cache_folder", "nowhere", "no such folder", "continues without"})
    EXPECT_NE(warnings.texts[0].find(part), std::string::npos) << warnings.texts[0];
}

TEST(BlockCache, GoesOnWhenTheDiskIsFull) {
  const Folder folder;
  const NumberedSource source;
  Warnings warnings;
  const BlockCache cache(source, 0, folder.path(), warnings.warn);
  (void)cache.get(0);
  // Files of at most 500 bytes: writes of a block then fail as they do on a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 500;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  expect_all_blocks(cache);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  expect_all_blocks(cache);
  EXPECT_EQ(source.reads, 1 + 2 * 9);  // block 0 comes from disk: nothing was written after the first failure
  ASSERT_EQ(warnings.texts.size(), 1U);
  EXPECT_NE(warnings.texts[0].find("with the blocks that are already there"), std::string::npos) << warnings.texts[0];
  for (const fs::directory_entry& entry : fs::directory_iterator(only_subfolder(folder.path())))
    EXPECT_EQ(entry.path().filename().string().find("block-0."), std::string::npos);
}

std::vector<long> all_rows() {
  std::vector<long> rows(95);
  std::iota(rows.begin(), rows.end(), 0L);
  return rows;
}

TEST(ReadAhead, HoldsNoMoreBlocksThanAskedFor) {
  const NumberedSource source;
  const BlockCache cache(source, 0, "", {});
  ReadAhead ahead(cache, 2, 3);
  ahead.start(all_rows());
  for (int waited = 0; source.reads < 3 && waited < 2000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(source.reads, 3);
  for (const long row : all_rows()) {
    const Block block = ahead.take(row);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->at(static_cast<std::size_t>(row % 10) * row_bytes), row);
  }
  EXPECT_EQ(source.reads, 10);
  EXPECT_EQ(ahead.take(0), nullptr);  // not planned any more
}

TEST(ReadAhead, GivesWhatIsWaitedForBeyondItsShare) {
  const NumberedSource source;
  const BlockCache cache(source, 0, "", {});
  ReadAhead ahead(cache, 1, 2);
  std::vector<long> rows{5, 15, 25, 35, 94, 6};  // of five blocks, the first of which is held to the end
  ahead.start(rows);
  for (const long row : rows) EXPECT_EQ(ahead.take(row)->at(static_cast<std::size_t>(row % 10) * row_bytes), row);
  EXPECT_EQ(source.reads, 5);
}

TEST(ReadAhead, ThrowsWhereTheBrokenRowIsTaken) {
  const NumberedSource source("1", 0, 42);
  const BlockCache cache(source, 0, "", {});
  ReadAhead ahead(cache, 2, 10);
  ahead.start(all_rows());
  for (long row = 0; row < 40; ++row) EXPECT_NE(ahead.take(row), nullptr);
  test::expect_error([&] { (void)ahead.take(40); }, {"row 42 is broken"});
  EXPECT_NE(ahead.take(50), nullptr);
}

}  // namespace
}  // namespace halograd::block_cache_test
