#pragma once

#include <algorithm>

#include "kernels/batch_norm.hpp"
#include "kernels/chunks.hpp"
#include "kernels/error.hpp"
#include "kernels/pack.hpp"

/// How batch normalisation cuts (rows, channels) into work items, and walks one.
namespace halograd {

/// Channels that an inner loop handles, and the values where it takes several rows of fewer channels: parts of a row
/// come from memory at half the speed.
constexpr int strip_width = runs_on_host ? 512 : 1;
constexpr int group_width = runs_on_host ? 128 : 1;
/// Terms that are added up in the data's own precision before they go into a double.
constexpr int few_terms = 8;
/// Rows or values below which a block would not pay for its start.
constexpr long least_values = 8192;
constexpr long least_rows = runs_on_host ? 32 : 16;
/// The most blocks: on an accelerator few channels need more of them to keep its threads busy.
inline long most_blocks(int channels) {
  if constexpr (runs_on_host) return 256;
  constexpr long wanted_threads = 262144;
  return std::clamp(wanted_threads / channels, 64L, 4096L);
}

/// Doubles from a block's two sums (2, C) to the next one's: on cores a line more, since blocks a power of two apart
/// share a few sets of the caches.
KOKKOS_INLINE_FUNCTION long sums_pitch(int channels) {
  return 2L * channels + (runs_on_host ? 8 : 0);
}

/// Rows in blocks and channels in tiles; each pair is a work item. Depends on the shape alone, so that sums do not
/// depend on the number of threads.
struct Partition {
  long rows, block_rows, blocks;
  int channels, tile, tiles;

  KOKKOS_FUNCTION long items() const { return blocks * tiles; }
  /// Rows of a block: the last one may have fewer.
  KOKKOS_FUNCTION long rows_of(long block) const {
    const long left = rows - block * block_rows;
    return left < block_rows ? left : block_rows;
  }
};

inline long rows_in_block(long rows, int channels) {
  const long wanted = runs_on_host ? std::max(least_rows, (least_values + channels - 1) / channels) : least_rows;
  const long needed = (rows + most_blocks(channels) - 1) / most_blocks(channels);
  return wanted > needed ? wanted : needed;
}

/// For sums over the rows.
inline Partition partition_of(long rows, int channels) {
  Partition partition{};
  partition.rows = rows;
  partition.channels = channels;
  partition.block_rows = rows_in_block(rows, channels);
  partition.blocks = (rows + partition.block_rows - 1) / partition.block_rows;
  partition.tiles = (channels + strip_width - 1) / strip_width;
  partition.tile = strip_width;
  if (partition.tiles > 1 && runs_on_host) {
    const int even = (channels + partition.tiles - 1) / partition.tiles;
    partition.tile = (even + 15) / 16 * 16;  // tiles of like width, whole vectors
    partition.tiles = (channels + partition.tile - 1) / partition.tile;
  }
  return partition;
}

/// For passes that sum nothing: on an accelerator as many rows as a thread can read before it writes the first.
inline Partition short_blocks(Partition partition) {
  if constexpr (!runs_on_host) {
    partition.block_rows = few_terms;
    partition.blocks = (partition.rows + few_terms - 1) / few_terms;
  }
  return partition;
}

/// The part of one work item.
struct Strip {
  long block, begin, end;  ///< rows begin..end-1
  int channel, width;      ///< channels channel..channel+width-1
  int channels;            ///< of a row
  int group;               ///< rows that an inner loop takes at once: 1 unless the strip is as wide as a row

  KOKKOS_FUNCTION Strip(const Partition& partition, long item) : Strip(partition, Divided(item, partition.tiles)) {}
  KOKKOS_FUNCTION Strip(const Partition& partition, const Divided& item)
      : block(item.quotient),
        begin(block * partition.block_rows),
        end(begin + partition.rows_of(block)),
        channel(item.rest * partition.tile),
        width(partition.channels - channel < partition.tile ? partition.channels - channel : partition.tile),
        channels(partition.channels),
        group(width == partition.channels && width < group_width ? group_width / width : 1) {}

  /// Writes a per-channel value once for each row of a group.
  template <class T, class Function>
  KOKKOS_FUNCTION void repeat(const Function& value, T* values) const {
    for (int c = 0; c < width; ++c) values[c] = value(channel + c);
    for (int i = width; i < group * width; ++i) values[i] = values[i - width];
  }

  /// From a stretch to the one to fetch meanwhile: a page of floats or more, in whole rows.
  [[nodiscard]] KOKKOS_FUNCTION long ahead() const {
    constexpr long page = 1024;
    return (page + channels - 1) / channels * channels;
  }

  /// Calls body(offset, count) for the stretches of memory that make up the strip, in their order: prefetchers follow
  /// that, but not several rows side by side.
  template <class Body>
  KOKKOS_FUNCTION void for_each_stretch(const Body& body) const {
    for (long row = begin; row < end; row += group) {
      const int rows = end - row < group ? static_cast<int>(end - row) : group;
      body(row * channels + channel, rows * width);
    }
  }
};

/// Asks for what a stretch further on will read, or write: hardware stops fetching ahead where a page ends.
template <bool to_write = false, class T>
KOKKOS_FORCEINLINE_FUNCTION void fetch(const T* at, int count) {
  if constexpr (runs_on_host) {
    constexpr long line = 64;
    const char* const from = reinterpret_cast<const char*>(at);
    for (long byte = 0; byte < static_cast<long>(sizeof(T)) * count; byte += line) {
      __builtin_prefetch(from + byte, to_write ? 1 : 0, to_write ? 3 : 2);
    }
  }
}

/// Writes value(index, lane) to `to` at all indices of a strip; on a host fetch_read(offset, count) comes before a
/// stretch, with that of a later one.
/// On an accelerator the values of one of short_blocks are all there before the first is written.
template <class T, class Fetch, class Value>
KOKKOS_FORCEINLINE_FUNCTION void write_strip(const Strip& strip, T* to, const Fetch& fetch_read, const Value& value) {
  if constexpr (runs_on_host) {
    const long ahead = strip.ahead();
    strip.for_each_stretch([&](long offset, int count) {
      fetch_read(offset + ahead, count);
      fetch<true>(to + offset + ahead, count);
      if constexpr (std::is_same_v<T, Bfloat16>) {  // g++ would round with integers where there is an instruction
        float values[strip_width];
        HALOGRAD_IVDEP
        for (int i = 0; i < count; ++i) values[i] = value(offset + i, i);
        copy_values(values, count, to + offset);
      } else {
        HALOGRAD_IVDEP
        for (int i = 0; i < count; ++i) to[offset + i] = value(offset + i, i);
      }
    });
  } else {
    const long first = strip.begin * strip.channels + strip.channel;
    Wide<T> values[few_terms];
    HALOGRAD_UNROLL
    for (int i = 0; i < few_terms; ++i) {
      if (strip.begin + i < strip.end) values[i] = value(first + static_cast<long>(i) * strip.channels, 0);
    }
    HALOGRAD_UNROLL
    for (int i = 0; i < few_terms; ++i) {
      if (strip.begin + i < strip.end) to[first + static_cast<long>(i) * strip.channels] = values[i];
    }
  }
}

/// Two sums over the rows, for a channel.
template <class T>
struct Sums {
  T first, second;
};

/// A strip one channel wide: a few rows at once, so that a thread waits once for all.
template <class T, class Terms>
KOKKOS_INLINE_FUNCTION Sums<double> sum_column(const Strip& strip, const Terms& terms) {
  Sums<double> sums{0, 0};
  long at = strip.begin * strip.channels + strip.channel;
  for (long row = strip.begin; row < strip.end; row += few_terms) {
    Sums<T> found[few_terms], few{0, 0};
    HALOGRAD_UNROLL
    for (int i = 0; i < few_terms; ++i, at += strip.channels) {
      found[i] = row + i < strip.end ? terms.at(at, 0) : Sums<T>{0, 0};
    }
    HALOGRAD_UNROLL
    for (const Sums<T>& term : found) {
      few.first += term.first;
      few.second += term.second;
    }
    sums.first += static_cast<double>(few.first);
    sums.second += static_cast<double>(few.second);
  }
  return sums;
}

/// Adds up a strip's two sums for each channel and hands them to finish(channel in the strip, sums): a few terms in T,
/// which is quick and loses no more than a few roundings, and the rest in double.
template <class T, class Terms, class Finish>
KOKKOS_INLINE_FUNCTION void sum_strip(const Strip& strip, const Terms& terms, const Finish& finish) {
  if constexpr (!runs_on_host) {
    finish(0, sum_column<T>(strip, terms));
  } else {
    T few_first[strip_width], few_second[strip_width];
    double first[strip_width], second[strip_width];
    const int lines = strip.group * strip.width;
    for (int i = 0; i < lines; ++i) {
      few_first[i] = few_second[i] = T(0);
      first[i] = second[i] = 0;
    }
    int added = 0;
    const auto flush = [&] {
      for (int i = 0; i < lines; ++i) {
        first[i] += static_cast<double>(few_first[i]);
        second[i] += static_cast<double>(few_second[i]);
        few_first[i] = few_second[i] = T(0);
      }
      added = 0;
    };
    const long ahead = strip.ahead();
    strip.for_each_stretch([&](long offset, int count) {
      terms.fetch(offset + ahead, count);
      HALOGRAD_IVDEP
      for (int i = 0; i < count; ++i) {
        const Sums<T> sums = terms.at(offset + i, i);
        few_first[i] += sums.first;
        few_second[i] += sums.second;
      }
      if (++added == few_terms) flush();
    });
    flush();
    for (int at = strip.width; at < lines; at += strip.width) {  // of the other rows of a group
      for (int c = 0; c < strip.width; ++c) {
        first[c] += first[at + c];
        second[c] += second[at + c];
      }
    }
    HALOGRAD_IVDEP
    for (int c = 0; c < strip.width; ++c) finish(c, Sums<double>{first[c], second[c]});
  }
}

/// The checks of the kernels: they throw Error.
inline void require_rows(const char* kernel, long rows, int channels, std::size_t x, std::size_t y) {
  HALOGRAD_REQUIRE(rows >= 0 && channels >= 1, kernel, ": ", rows, " rows of ", channels, " channels");
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(channels);
  HALOGRAD_REQUIRE(x >= values && y >= values, kernel, ": ", rows, " rows of ", channels, " channels need ", values,
                   " values, the buffers have ", x, " and ", y);
}

inline void require_batch(const char* kernel, long rows, const AllRows& all, int channels, std::size_t workspace) {
  const long count = all.count(rows);
  HALOGRAD_REQUIRE(count >= 2, kernel, ": a variance needs at least 2 rows (batch x height x width), there is ", count);
  const std::size_t needed = batch_norm_workspace(rows, channels);
  HALOGRAD_REQUIRE(workspace >= needed, kernel, ": the workspace has ", workspace, " doubles, ", needed, " are needed");
}

}  // namespace halograd
