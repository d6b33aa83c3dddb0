#pragma once

#include <cstring>
#include <vector>

#include "kernels/bfloat16.hpp"
#include "kernels/device/matrix_instructions.hpp"
#include "kernels/device/tile.hpp"

/// The tiles of tile.hpp for values that are stored as Bfloat16, on NVIDIA's devices from sm_80 on: 16 bytes at a time
/// go from device memory to shared memory past the registers, several panels ahead (PTX ISA: cp.async), and from there
/// to the matrix units eight rows at a time (ldmatrix). A product says, beside what tile.hpp asks of it:
///
///   class AChunks, BChunks                                   the chunks of one line of A or B, from one depth on
///     (product, block, row or column, depth)                 of the chunk's first value
///     const Bfloat16* at() const                             the chunk, or null: zeros
///     void advance(int depth)                                goes on to a later depth
///   const Bfloat16* any() const                              some address of device memory
namespace halograd::device {

/// AMD's devices have no such copies.
#if defined(KOKKOS_ENABLE_HIP)
constexpr bool has_copied_tiles = false;
#else
constexpr bool has_copied_tiles = true;
#endif

/// Values in 16 bytes.
constexpr int chunk = 8;

/// How a panel lies in shared memory: lines of whole chunks, which change places from line to line, so that chunks of
/// eight lines, one below the other, lie in different banks.
template <int length>
struct ChunkPanel {
  static constexpr int in_line = length / chunk;
  static constexpr int places = in_line < 8 ? in_line : 8;
  /// Where a chunk begins, in values.
  KOKKOS_FUNCTION static int at(int line, int place) {
    return line * length + (place ^ (line / (8 / places) % places)) * chunk;
  }
};

/// What a warp has: WarpRows x WarpColumns results.
template <int Rows, int Columns, int WarpRows, int WarpColumns>
struct CopiedTile {
  static constexpr int rows = Rows, columns = Columns, warp_rows = WarpRows, warp_columns = WarpColumns;
  static constexpr int depth = 16, stages = 5;
  static constexpr int warps_in_row = Columns / WarpColumns, threads = Rows / WarpRows * warps_in_row * 32;
  static_assert(WarpRows % 16 == 0 && WarpColumns % 16 == 0 && Rows * depth == threads * chunk && Columns <= Rows);
};

#if defined(__CUDA_ARCH__)
__device__ inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
/// Four matrices of 8 x 8 values, of which lane 8 i + j has the address of line j of matrix i.
template <bool transposed>
__device__ void load_matrices(const Bfloat16* line, std::uint32_t (&words)[4]) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(line)));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(line)));
  }
}
#endif

/// 16 bytes from device memory to shared memory, zeros from null; `valid`: some address of device memory.
KOKKOS_INLINE_FUNCTION void copy_chunk(const Bfloat16* from, const Bfloat16* valid, Bfloat16* shared) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(from != nullptr ? from : valid), "r"(from != nullptr ? 16 : 0)
               : "memory");
#else
  if (from != nullptr) {
    memcpy(static_cast<void*>(shared), from, sizeof(Bfloat16) * chunk);
  } else {
    memset(static_cast<void*>(shared), 0, sizeof(Bfloat16) * chunk);
  }
  static_cast<void>(valid);
#endif
}
/// Ends a group of copies.
KOKKOS_INLINE_FUNCTION void commit_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until all but the last `count` groups are there.
template <int count>
KOKKOS_INLINE_FUNCTION void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory");
#endif
}

/// One operand in shared memory: lines along the depth, or lines of one depth.
template <class Tile, int length, Run direction>
struct Operand {
  static constexpr bool deep = direction == Run::along_depth;
  using Panel = ChunkPanel<deep ? Tile::depth : length>;
  static constexpr int size = length * Tile::depth, chunks = size / chunk;

  /// The chunk that a thread copies; those from `chunks` on copy none.
  KOKKOS_FUNCTION static int across(int thread) {
    return deep ? thread / Panel::in_line : thread % Panel::in_line * chunk;
  }
  KOKKOS_FUNCTION static int along(int thread) {
    return deep ? thread % Panel::in_line * chunk : thread / Panel::in_line;
  }
  KOKKOS_FUNCTION static int at(int thread) { return Panel::at(thread / Panel::in_line, thread % Panel::in_line); }

  KOKKOS_FUNCTION static float value(const Bfloat16* panel, int position, int depth) {
    const int line = deep ? position : depth, in_line = deep ? depth : position;
    return panel[Panel::at(line, in_line / chunk) + in_line % chunk];
  }
#if defined(__CUDA_ARCH__)
  /// Sixteen positions from `first` on, as mma.m16n8k16 has its A (rows first), or twice eight as it has its B.
  template <bool as_a>
  __device__ static void load(const Bfloat16* panel, int first, int lane, std::uint32_t (&words)[4]) {
    // of matrix lane / 8: A goes down the rows first, B along the depth
    const int half = as_a ? lane / 8 % 2 : lane / 16, deep_half = as_a ? lane / 16 : lane / 8 % 2;
    if constexpr (deep) {
      load_matrices<false>(panel + Panel::at(first + half * 8 + lane % 8, deep_half), words);
    } else {
      load_matrices<true>(panel + Panel::at(deep_half * 8 + lane % 8, first / chunk + half), words);
    }
  }
#endif
};

/// What one thread does for a tile.
template <class Tile, class Product>
class CopyingThread {
 public:
  using A = Operand<Tile, Tile::rows, Product::a_run>;
  using B = Operand<Tile, Tile::columns, Product::b_run>;
  static constexpr int panels = A::size + B::size;  // values of a stage

  KOKKOS_FUNCTION CopyingThread(const Product& product, long team, int thread)
      : product_(product),
        thread_(thread),
        row_(team / column_tiles(product) % row_tiles(product) * Tile::rows),
        column_(team % column_tiles(product) * Tile::columns),
        block_(static_cast<int>(team / (row_tiles(product) * column_tiles(product)))),
        a_(product, block_, row_ + A::across(thread), A::along(thread)),
        b_(product, block_, column_ + B::across(thread), B::along(thread)) {
    for (auto& row : sums_) {
      for (auto& fragment : row) {
        for (float& sum : fragment) sum = 0;
      }
    }
  }
  static long teams(const Product& product) { return row_tiles(product) * column_tiles(product) * product.blocks(); }
  [[nodiscard]] KOKKOS_FUNCTION int steps() const {
    return static_cast<int>((product_.depth() + Tile::depth - 1) / Tile::depth);
  }

  /// Begins to copy the next panels.
  KOKKOS_FUNCTION void copy(Bfloat16* stage) {
    copy_chunk(a_.at(), product_.any(), stage + A::at(thread_));
    a_.advance(Tile::depth);
    if (B::chunks >= Tile::threads || thread_ < B::chunks) {
      copy_chunk(b_.at(), product_.any(), stage + A::size + B::at(thread_));
      b_.advance(Tile::depth);
    }
  }
  KOKKOS_FUNCTION void multiply(const Bfloat16* stage) {
#if defined(__CUDA_ARCH__)
    const int lane = thread_ % 32;
    std::uint32_t right[pairs][4];
    HALOGRAD_UNROLL
    for (int n = 0; n < pairs; ++n) {
      B::template load<false>(stage + A::size, first_column() + n * 16, lane, right[n]);
    }
    HALOGRAD_UNROLL
    for (int m = 0; m < row_fragments; ++m) {
      std::uint32_t left[4];
      A::template load<true>(stage, first_row() + m * 16, lane, left);
      HALOGRAD_UNROLL
      for (int n = 0; n < pairs; ++n) {
        const std::uint32_t(&words)[4] = right[n];
        MmaBf16::multiply(sums_[m][2 * n], left, {words[0], words[1]});
        MmaBf16::multiply(sums_[m][2 * n + 1], left, {words[2], words[3]});
      }
    }
#else
    for (int m = 0; m < row_fragments; ++m) {
      const int first = first_row() + m * 16 + MmaLayout::c(thread_ % 32, 0).row;
      for_each_pair([&](int n, int half, long column) {
        for (int i = 0; i < 2; ++i) {
          const int r = first + 8 * half, c = static_cast<int>(column - column_) + i;
          for (int k = 0; k < Tile::depth; ++k) {
            sums_[m][n][2 * half + i] += A::value(stage, r, k) * B::value(stage + A::size, c, k);
          }
        }
      });
    }
#endif
  }
  /// Sixteen rows after the other: what their stores read is there before the first is made.
  KOKKOS_FUNCTION void store() {
    using Before = typename Product::template Before<2>;
    HALOGRAD_UNROLL
    for (int m = 0; m < row_fragments; ++m) {
      const long first = row_ + first_row() + m * 16 + MmaLayout::c(thread_ % 32, 0).row;
      const long rows[2] = {first < product_.rows() ? product_.result_row(first) : -1,
                            first + 8 < product_.rows() ? product_.result_row(first + 8) : -1};
      Before before[2 * pairs][2] = {};
      for_each_pair([&](int n, int half, long column) {
        if (rows[half] >= 0) before[n][half] = product_.template before<2>(block_, rows[half], column);
      });
      for_each_pair([&](int n, int half, long column) {
        const float* const sums = sums_[m][n] + 2 * half;
        if (rows[half] >= 0) product_.store(block_, rows[half], column, {sums[0], sums[1]}, before[n][half]);
      });
    }
  }

 private:
  static constexpr int row_fragments = Tile::warp_rows / 16, pairs = Tile::warp_columns / 16;

  KOKKOS_FUNCTION static long row_tiles(const Product& product) {
    return (product.rows() + Tile::rows - 1) / Tile::rows;
  }
  KOKKOS_FUNCTION static long column_tiles(const Product& product) {
    return (product.columns() + Tile::columns - 1) / Tile::columns;
  }
  [[nodiscard]] KOKKOS_FUNCTION int first_row() const {
    return thread_ / 32 / Tile::warps_in_row * Tile::warp_rows;
  }
  [[nodiscard]] KOKKOS_FUNCTION int first_column() const {
    return thread_ / 32 % Tile::warps_in_row * Tile::warp_columns;
  }
  /// visit(n, half, column) for the pairs of results inside C that sums_[m][n] has from 2 half on, eight rows apart.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_pair(const Visit& visit) const {
    HALOGRAD_UNROLL
    for (int n = 0; n < 2 * pairs; ++n) {
      const long column = column_ + first_column() + n * 8 + MmaLayout::c(thread_ % 32, 0).column;
      HALOGRAD_UNROLL
      for (int half = 0; half < 2; ++half) {
        if (column < product_.columns()) visit(n, half, column);
      }
    }
  }

  const Product& product_;
  int thread_;
  long row_, column_;
  int block_;
  typename Product::AChunks a_;
  typename Product::BChunks b_;
  float sums_[row_fragments][2 * pairs][4];
};

/// A team's tile.
template <class Tile, class Product>
struct CopiedKernel {
  using Thread = CopyingThread<Tile, Product>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Tile::threads, 2>>;
  static constexpr int threads = Tile::threads;
  static constexpr std::size_t alignment = 128, shared_bytes = sizeof(Bfloat16) * Tile::stages * Thread::panels;
  Product product;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const std::size_t bytes = shared_bytes;  // get_shmem_aligned takes a reference
    auto* const shared = static_cast<Bfloat16*>(team.team_scratch(0).get_shmem_aligned(bytes, alignment));
    Thread thread(product, team.league_rank(), team.team_rank());
    const int steps = thread.steps();
    for (int stage = 0; stage < Tile::stages - 1; ++stage) {
      if (stage < steps) thread.copy(shared + stage * Thread::panels);
      commit_copies();
    }
    int stage = 0, next = Tile::stages - 1;
    for (int step = 0; step < steps; ++step) {
      wait_for_copies<Tile::stages - 2>();
      team.team_barrier();  // what all copied for this step is there, and nobody reads the stage that comes next
      if (step + Tile::stages - 1 < steps) thread.copy(shared + next * Thread::panels);
      commit_copies();
      thread.multiply(shared + stage * Thread::panels);
      stage = stage + 1 == Tile::stages ? 0 : stage + 1;
      next = next + 1 == Tile::stages ? 0 : next + 1;
    }
    thread.store();
  }

  /// The same on a host, panel after panel.
  void run_on_host(long team) const {
    std::vector<Together<Bfloat16, chunk>> panels(Thread::panels / chunk);
    auto* const shared = reinterpret_cast<Bfloat16*>(panels.data());
    std::vector<Thread> all;
    all.reserve(Tile::threads);
    for (int thread = 0; thread < Tile::threads; ++thread) all.emplace_back(product, team, thread);
    for (int step = 0; step < all.front().steps(); ++step) {
      for (Thread& thread : all) thread.copy(shared);
      for (Thread& thread : all) thread.multiply(shared);
    }
    for (Thread& thread : all) thread.store();
  }
};

}  // namespace halograd::device
