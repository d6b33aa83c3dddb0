#pragma once

#include <cstdint>
#include <vector>

/// Products of matrices of bf16 values (float_bits.hpp) with sums in float, on what a CPU has for them. Chosen at run
/// time, not by the build.
namespace halograd::host::bf16 {

/// Operands are read in tiles of 16 rows (left) or columns (right) by 32 values of depth: what a tile register of AMX
/// holds.
constexpr int tile_width = 16;
constexpr int tile_depth = 32;
constexpr int tile_values = tile_width * tile_depth;

/// Lines of memory, `pitch` bytes apart.
struct Lines {
  const void* first = nullptr;
  long pitch = 0, count = 0;
  bool to_write = false;

  /// The index-th of so many pieces.
  [[nodiscard]] Lines piece(long index, long pieces) const {
    const long begin = count * index / pieces, end = count * (index + 1) / pieces;
    return {static_cast<const char*>(first) + begin * pitch, pitch, end - begin, to_write};
  }
};

/// Blocks of rows of a Product at most.
constexpr int most_row_blocks = 4;

/// sums (+)= left right. A block of 16 rows of left has its tile of a step, 16 lines of 32 values `left_line` apart, at
/// left[block] + left_step[step].
struct Product {
  const std::uint16_t* const* left;  ///< (row_blocks)
  const long* left_step;             ///< (steps)
  long left_line;
  int row_blocks;
  const std::uint16_t* right;  ///< (column_blocks, steps) tiles: 16 pairs of depth, 16 columns, 2
  long right_pitch;            ///< values from one block of columns to the next
  int column_blocks;
  int steps;    ///< of depth
  float* sums;  ///< (16 row_blocks, sums_pitch)
  long sums_pitch;
  bool accumulate;
  Lines ahead[3]{};  ///< what is needed next: fetched meanwhile by units whose products take long enough
};

/// A way to multiply.
struct Unit {
  const char* name;
  bool (*present)();  ///< in this CPU, and allowed to this process
  int speed;          ///< multiply-adds for each of floats, where it is present (docs/measurements/kernels.md)
  int row_blocks;     ///< of a product that it is fastest with, where there is a choice
  void (*begin)();    ///< before a thread's products
  void (*multiply)(const Product& product);
  void (*end)();

  /// AMX: products take less time than their operands from the third-level cache, and than a quarter of them in floats.
  [[nodiscard]] bool outruns_caches() const { return speed > 4; }
};

/// All of them, the fastest first; the last is plain code, which every CPU runs.
const std::vector<Unit>& units();
/// The first that is present and faster than floats, or null.
const Unit* fast_unit();

/// A unit in use by a thread.
class Session {
 public:
  explicit Session(const Unit& unit) : unit_(unit) { unit.begin(); }
  ~Session() { unit_.end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void multiply(const Product& product) const { unit_.multiply(product); }

 private:
  const Unit& unit_;
};

}  // namespace halograd::host::bf16
