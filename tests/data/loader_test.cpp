#include "data/loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>

#include "data/augment.hpp"
#include "data/data_files.hpp"
#include "data/numbered_dataset.hpp"
#include "data/sharding.hpp"
#include "kernels/error.hpp"

namespace halograd::loader_test {
namespace {

using test::expect_error;

TEST(Loader, RanksTogetherTakeWhatOneRankTakes) {
  for (const long size : {8L, 50L, 53L, 64L, 97L})
    for (const int batch : {8, 11, 32}) {
      if (batch > size) continue;
      const NumberedDataset set(size);
      const std::vector<Batch> whole = epoch_of(set, augmented(), options(batch), 3);
      std::vector<std::int32_t> all = labels_of(whole);
      std::sort(all.begin(), all.end());
      ASSERT_EQ(all.size(), static_cast<std::size_t>(size));  // each image once
      ASSERT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());

      for (const int ranks : {1, 2, 3, 4, 8}) {
        std::vector<Batch> joined;
        for (int rank = 0; rank < ranks; ++rank) {
          Loader loader(set, augmented(), options(batch, rank, ranks));
          const std::vector<Batch> part = epoch_of(loader, 3);
          ASSERT_EQ(static_cast<long>(part.size()), loader.steps());
          ASSERT_EQ(loader.steps(), size / batch + (size % batch >= ranks ? 1 : 0));
          joined.resize(part.size());
          int largest = 0;
          for (std::size_t step = 0; step < part.size(); ++step) {
            ASSERT_GE(part[step].size, 1);
            ASSERT_EQ(part[step].images.size(), static_cast<std::size_t>(part[step].size * values));
            largest = std::max(largest, part[step].size);
            joined[step].size += part[step].size;
            joined[step].global_size = part[step].global_size;
            joined[step].labels.insert(joined[step].labels.end(), part[step].labels.begin(), part[step].labels.end());
            joined[step].images.insert(joined[step].images.end(), part[step].images.begin(), part[step].images.end());
          }
          EXPECT_EQ(loader.largest_batch(), largest);
        }
        for (std::size_t step = 0; step < joined.size(); ++step) {
          EXPECT_EQ(joined[step].size, joined[step].global_size);
          expect_same(joined[step], whole[step]);
        }
      }
    }
}

TEST(Loader, TheBatchAheadIsTheNextOne) {
  const NumberedDataset set(50);
  Loader loader(set, augmented(), options(8));
  EXPECT_EQ(loader.ahead(), nullptr);
  loader.start_epoch(0);
  const Batch* expected = nullptr;
  for (long step = 0; step < loader.steps(); ++step) {
    const Batch* batch = loader.next();
    EXPECT_TRUE(step == 0 || batch == expected) << step;
    const std::vector<std::int32_t> labels = batch->labels;
    const bool last = step + 1 == loader.steps();
    for (int tries = 0; tries < 5000 && !last && loader.ahead() == nullptr; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    expected = loader.ahead();
    ASSERT_EQ(expected == nullptr, last);
    EXPECT_EQ(batch->labels, labels);  // still held
  }

  LoaderOptions alone = options(8);
  alone.prefetch = false;
  Loader waits(set, {}, alone);
  waits.start_epoch(0);
  waits.next();
  EXPECT_EQ(waits.ahead(), nullptr);
}

/// Batches of 8 give five ranks 1 2 1 2 2 images, the last one of 7 gives them 1 1 2 1 2.
TEST(Loader, UnevenSharesAreDealtFromTheNextEpochOnAndCoverTheSet) {
  const NumberedDataset set(97);
  const std::vector<double> speeds{2, 1, 2};
  std::vector<std::int32_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    LoaderOptions uneven = options(20, rank, 3);
    uneven.most = 14;
    Loader loader(set, {}, uneven);
    EXPECT_EQ(loader.largest_batch(), 14);
    loader.start_epoch(0);
    loader.set_shares(speeds);
    EXPECT_EQ(loader.next()->size, rank == 0 ? 6 : 7);  // of the epoch under way
    const std::vector<Batch> batches = epoch_of(loader, 1);
    ASSERT_EQ(batches.size(), 5U);
    for (std::size_t step = 0; step < batches.size(); ++step) {
      const int whole = rank == 1 ? 4 : 8;
      if (step < 4) {
        EXPECT_EQ(batches[step].size, whole);
      }
      EXPECT_EQ(batches[step].global_size, step < 4 ? 20 : 17);
      seen.insert(seen.end(), batches[step].labels.begin(), batches[step].labels.end());
    }
  }
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), 97U);
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

/// Draws `numbers` one by one, then none.
std::function<std::optional<long>()> dealt(std::vector<long> numbers) {
  return [numbers = std::move(numbers), next = std::size_t{0}]() mutable {
    return next < numbers.size() ? std::optional(numbers[next++]) : std::nullopt;
  };
}

TEST(Loader, ALotIsWhatARankWouldGetInAStep) {
  const NumberedDataset set(97);
  const int ranks = 3;
  for (const bool prefetch : {false, true}) {
    LoaderOptions chosen = options(20, 1, ranks);
    chosen.prefetch = prefetch;
    chosen.lots = true;
    Loader lots(set, augmented(), chosen);
    EXPECT_EQ(lots.lots_at_once(), 1);
    ASSERT_EQ(lots.lots(), 5 * ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const long epoch : {2L, 3L}) {
        const std::vector<Batch> steps = epoch_of(set, augmented(), options(20, rank, ranks), epoch);
        std::vector<long> numbers;
        for (long step = 0; step < lots.steps(); ++step) numbers.push_back(epoch * lots.lots() + step * ranks + rank);
        lots.start_dealing(dealt(numbers));
        for (const Batch& expected : steps) {
          const Batch* batch = lots.next();
          ASSERT_NE(batch, nullptr);
          EXPECT_EQ(batch->number, epoch * lots.lots() + expected.number * ranks + rank);
          expect_same(*batch, expected);
        }
        EXPECT_EQ(lots.next(), nullptr);
        EXPECT_EQ(lots.next(), nullptr);
      }
    }
  }
}

TEST(Loader, LotsOfWindowsAreDealtInPiecesAndCoverTheSet) {
  const NumberedDataset set(1000);
  DataConfig config;
  config.shuffle = "window";
  config.shuffle_window = 20;
  LoaderOptions chosen = options(20, 0, 4);
  chosen.lots = true;
  Loader lots(set, config, chosen);
  const long piece = lots.lots_at_once(), all = lots.lots();
  EXPECT_EQ(piece, 3);        // 1000 / (16 * 4) = 15 images, in lots of 5
  std::vector<long> numbers;  // the pieces in any order, each from its beginning, the first from its middle
  for (long begin = all - piece + 1; begin > -piece; begin -= piece) {
    for (long lot = std::max(0L, begin); lot < begin + piece && lot < all; ++lot) numbers.push_back(lot);
  }
  lots.start_dealing(dealt(numbers));
  std::vector<std::int32_t> seen;
  while (const Batch* batch = lots.next()) {
    EXPECT_EQ(batch->size, 5);
    EXPECT_EQ(batch->global_size, 20);
    seen.insert(seen.end(), batch->labels.begin(), batch->labels.end());
  }
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), 1000U);
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

TEST(Loader, BatchesOnARingAreNotDealt) {
  const NumberedDataset set(64);
  DataConfig config;
  config.shuffle = "ring";
  LoaderOptions chosen = options(8, 0, 2);
  chosen.lots = true;
  expect_error([&] { Loader(set, config, chosen); }, {"data.shuffle = \"ring\""});
}

TEST(Loader, TheLastBatchMayBeARanksLargest) {
  const NumberedDataset set(15);
  Loader loader(set, {}, options(8, 2, 5));
  EXPECT_EQ(loader.largest_batch(), 2);
  const std::vector<Batch> batches = epoch_of(loader, 0);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].size, 1);
  EXPECT_EQ(batches[1].size, 2);
}

TEST(Loader, OnARingBatchesGoFromRankToRankAndEachSeesAllOfThem) {
  DataConfig config;
  config.shuffle = "ring";
  for (const auto& [size, batch, ranks] : {std::tuple{60, 12, 3}, {47, 10, 4}, {30, 7, 1}, {53, 9, 8}}) {
    const NumberedDataset set(size);
    std::vector<std::vector<Batch>> before;
    std::vector<std::vector<long>> seen(static_cast<std::size_t>(ranks));
    for (long epoch = 0; epoch <= ranks; ++epoch) {
      std::vector<std::vector<Batch>> now;
      for (int rank = 0; rank < ranks; ++rank) {
        Loader loader(set, config, options(batch, rank, ranks));
        now.push_back(epoch_of(loader, epoch));
        for (std::size_t step = 0; step < now.back().size(); ++step) {
          const Batch& taken = now.back()[step];
          ASSERT_LE(taken.size, loader.largest_batch());
          if (epoch < ranks) {
            std::vector<long>& all = seen[static_cast<std::size_t>(rank)];
            all.insert(all.end(), taken.indices.begin(), taken.indices.end());
          }
          if (epoch == 0) continue;
          EXPECT_EQ(taken.indices, before[static_cast<std::size_t>((rank + ranks - 1) % ranks)][step].indices);
        }
      }
      before = now;
    }
    for (std::vector<long>& all : seen) {
      std::sort(all.begin(), all.end());
      EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "an image was seen twice in " << ranks;
      EXPECT_EQ(all, seen[0]);
      EXPECT_GE(static_cast<int>(all.size()), size - ranks + 1);  // but for a last step of fewer images than ranks
    }
  }
}

TEST(Loader, EpochsAndSeedsDiffer) {
  const NumberedDataset set(100);
  const std::vector<Batch> first = epoch_of(set, augmented(), options(10), 0);
  expect_same(first, epoch_of(set, augmented(), options(10), 0));
  EXPECT_NE(labels_of(first), labels_of(epoch_of(set, augmented(), options(10), 1)));
  EXPECT_NE(labels_of(first), labels_of(epoch_of(set, augmented(), options(10, 0, 1, 2), 0)));
  std::vector<std::int32_t> in_order(100);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_NE(labels_of(first), in_order);
}

TEST(Loader, ResumesAtAnyStep) {
  const NumberedDataset set(50);
  for (const bool prefetch : {false, true}) {
    LoaderOptions chosen = options(8, 1, 2);
    chosen.prefetch = prefetch;
    Loader loader(set, augmented(), chosen);
    const std::vector<Batch> whole = epoch_of(loader, 4);
    ASSERT_EQ(whole.size(), 7U);
    for (long step = 0; step <= 7; ++step) {
      Loader resumed(set, augmented(), chosen);
      expect_same(epoch_of(resumed, 4, step), std::vector<Batch>(whole.begin() + step, whole.end()));
    }
    expect_error([&] { loader.start_epoch(4, 8); }, {"epoch 4", "step 8", "0..6"});
    expect_error([&] { loader.start_epoch(4, -1); }, {"step -1"});
  }
}

TEST(Loader, PrefetchChangesNothing) {
  const NumberedDataset set(203);
  LoaderOptions without = options(16, 2, 3);
  without.prefetch = false;
  DataConfig config = augmented();
  Loader ahead(set, config, options(16, 2, 3));
  Loader plain(set, config, without);
  config.prefetch = false;
  Loader by_config(set, config, options(16, 2, 3));
  for (const long epoch : {0L, 1L, 7L}) {
    const std::vector<Batch> batches = epoch_of(ahead, epoch);
    expect_same(batches, epoch_of(plain, epoch));
    expect_same(batches, epoch_of(by_config, epoch));
  }
}

TEST(Loader, PreparesTwoBatchesAheadAndNoMore) {
  const NumberedDataset set(100);
  Loader loader(set, {}, options(10));
  loader.start_epoch(0);
  const Batch* batch = loader.next();
  const Batch held = *batch;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (set.reads < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(set.reads, 3);
  expect_same(*batch, held);  // still valid
}

TEST(Loader, AugmentsThenNormalises) {
  const NumberedDataset set(20);
  const DataConfig config = augmented();
  const std::vector<Batch> batches = epoch_of(set, config, options(20, 0, 1, 9), 6);
  ASSERT_EQ(batches.size(), 1U);
  for (std::size_t i = 0; i < 20; ++i) {
    const long index = batches[0].labels[i];
    std::vector<float> image(values);
    NumberedDataset::fill(index, image.data());
    const Augmentation draw = draw_augmentation(9, 6, index, 2, true);
    for (int y = 0; y < shape.height; ++y)
      for (int x = 0; x < shape.width; ++x)
        for (int c = 0; c < shape.channels; ++c) {
          const int from_y = y + draw.down;
          const int from_x = (draw.mirror ? shape.width - 1 - x : x) + draw.right;
          const bool inside = from_y >= 0 && from_y < shape.height && from_x >= 0 && from_x < shape.width;
          const float value =
              inside ? image[static_cast<std::size_t>((from_y * shape.width + from_x) * shape.channels + c)] : 0.0F;
          const float expected = c == 0 ? (value - 0.25F) / 0.5F : (value - 0.5F) / 2.0F;
          ASSERT_EQ(batches[0].images[i * values + static_cast<std::size_t>((y * shape.width + x) * 2 + c)], expected);
        }
  }
}

TEST(Loader, EvaluationReadsEveryImageOnceInOrderAndUnaltered) {
  for (const long size : {1L, 5L, 50L, 53L})
    for (const int ranks : {1, 2, 3, 4, 8}) {
      const NumberedDataset set(size);
      std::vector<std::int32_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        LoaderOptions chosen = options(10, rank, ranks);
        chosen.training = false;
        Loader loader(set, augmented(), chosen);
        const std::vector<Batch> batches = epoch_of(loader, 2);
        EXPECT_EQ(static_cast<long>(batches.size()), loader.steps());
        int largest = 0;
        for (const Batch& batch : batches) {
          EXPECT_LE(batch.size, (10 + ranks - 1) / ranks);
          EXPECT_EQ(batch.global_size, batch.size);
          largest = std::max(largest, batch.size);
          for (int i = 0; i < batch.size; ++i)
            for (int j = 0; j < values; ++j) {
              const float value =
                  static_cast<float>(batch.labels[static_cast<std::size_t>(i)] + 1) + static_cast<float>(j) / 64;
              ASSERT_EQ(batch.images[static_cast<std::size_t>(i * values + j)],
                        j % 2 == 0 ? (value - 0.25F) / 0.5F : (value - 0.5F) / 2.0F);
            }
        }
        EXPECT_EQ(loader.largest_batch(), largest);
        const std::vector<std::int32_t> labels = labels_of(batches);
        all.insert(all.end(), labels.begin(), labels.end());
      }
      ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int32_t>(i));
    }
}

TEST(Loader, ThrowsTheErrorOfAStepAtThatStep) {
  const std::vector<long> order = epoch_permutation(40, 1, 0);
  const long broken_step = 3;
  const NumberedDataset set(40, order[broken_step * 5 + 2]);
  for (const bool prefetch : {false, true}) {
    LoaderOptions chosen = options(5);
    chosen.prefetch = prefetch;
    Loader loader(set, {}, chosen);
    loader.start_epoch(0);
    for (long step = 0; step < broken_step; ++step) ASSERT_NE(loader.next(), nullptr);
    expect_error([&] { loader.next(); }, {"is broken"});
    expect_error([&] { loader.next(); }, {"is broken"});
    loader.start_epoch(0, broken_step + 1);
    EXPECT_NE(loader.next(), nullptr);
  }
}

TEST(Loader, MayBeStoppedAtAnyTime) {
  const NumberedDataset set(64);
  const std::vector<Batch> whole = epoch_of(set, {}, options(4), 1);
  for (int taken = 0; taken <= 16; ++taken)
    for (int repeat = 0; repeat < 20; ++repeat) {
      Loader loader(set, {}, options(4));
      loader.start_epoch(0);
      for (int i = 0; i < taken; ++i) ASSERT_NE(loader.next(), nullptr);
      if (repeat % 2 == 0) continue;  // destroyed with the thread at work
      loader.start_epoch(1);
      const Batch* batch = loader.next();
      ASSERT_NE(batch, nullptr);
      expect_same(*batch, whole[0]);
    }
  const Loader never_started(set, {}, options(4));
}

TEST(Loader, EndsAnEpochUntilTheNextIsStarted) {
  const NumberedDataset set(8);
  Loader loader(set, {}, options(8));
  expect_error([&] { loader.next(); }, {"before its epoch was started"});
  loader.start_epoch(0);
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
  loader.start_epoch(1);
  EXPECT_NE(loader.next(), nullptr);
}

TEST(Loader, RefusesBatchesThatDoNotFit) {
  const NumberedDataset set(20);
  expect_error([&] { Loader(set, {}, options(21)); }, {"training.batch is 21", "at most 20"});
  expect_error([&] { Loader(set, {}, options(3, 0, 4)); }, {"training.batch is 3", "at least 4"});
  expect_error([&] { Loader(set, {}, options(0)); }, {"training.batch is 0"});
  expect_error([&] { Loader(set, {}, options(8, 4, 4)); }, {"rank 4 of 4"});
  DataConfig config;
  config.pad_crop = 4;
  expect_error([&] { Loader(set, config, options(8)); }, {"data.pad_crop is 4", "0..3", "4 x 5"});
  config.pad_crop = -1;
  expect_error([&] { Loader(set, config, options(8)); }, {"data.pad_crop is -1"});
  LoaderOptions evaluation = options(21);
  evaluation.training = false;
  EXPECT_EQ(Loader(set, {}, evaluation).steps(), 1);
}

}  // namespace
}  // namespace halograd::loader_test
