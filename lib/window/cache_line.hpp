#pragma once

#include <cstddef>

namespace halograd {

/// Bytes of a cache line. Counters that different ranks write lie on lines of their own, so that nobody who reads one
/// disturbs the writer of another.
constexpr std::size_t cache_line = 64;

/// `bytes`, rounded up to whole cache lines.
constexpr std::size_t whole_lines(std::size_t bytes) {
  return (bytes + cache_line - 1) / cache_line * cache_line;
}

}  // namespace halograd
