#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/bfloat16.hpp"
#include "kernels/device/matrix_instructions.hpp"
#include "kernels/device/tile.hpp"
#include "kernels/device/warp_group.hpp"
#if defined(KOKKOS_ENABLE_CUDA)
#include "kernels/accelerator_runtime.hpp"
#endif

/// The tiles of tile.hpp for values that are stored as Bfloat16, on NVIDIA's devices from sm_80 on: 16 bytes at a time
/// go from device memory to shared memory past the registers, several panels ahead (PTX ISA: cp.async), and from there
/// to the matrix units: on Hopper by groups of four warps, which read shared memory themselves (wgmma), elsewhere by
/// warps, eight rows at a time (ldmatrix). A product says, beside what tile.hpp asks of it:
///
///   class AChunks, BChunks                                   the chunks of one line of A or B, from one depth on
///     (product, block, row or column, depth)                 of the first chunk's first value
///     const Bfloat16* at() const                             the chunk, or null: zeros; of operands that run across,
///                    at(int piece) const                     the one 32 rows or columns on for each piece
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

/// How a panel lies in shared memory: lines of whole chunks, in bands of at most 128 bytes, one band's lines after the
/// other's. Chunks change places from line to line, so that those of eight lines, one below the other, lie in different
/// banks (PTX ISA: swizzling modes of shared memory).
template <int lines, int length>
struct ChunkPanel {
  static constexpr int width = std::min(length, 64);  // of a band, in values
  static constexpr int band = lines * width, bands = length / width;
  static constexpr int in_line = length / chunk, in_band = width / chunk;
  /// Where a chunk begins, in values.
  KOKKOS_FUNCTION static int at(int line, int place) {
    return place / in_band * band + line * width + (place % in_band ^ (line / (8 / in_band) % in_band)) * chunk;
  }
};

/// Each of a team's warps has sixteen rows of results.
template <int Columns>
struct CopiedTile {
  static constexpr int rows = 128, columns = Columns, depth = 64, stages = Columns > 64 ? 3 : 4;
  static constexpr int threads = rows / 16 * 32;
  static constexpr int pieces = depth / 16;  // which an instruction multiplies
  static_assert(rows * 2 == threads && Columns % 16 == 0 && Columns <= rows);
};

#if defined(__CUDA_ARCH__)
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
#if defined(HALOGRAD_WARP_GROUPS)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // for what reads past the warps
#endif
}

/// One operand in shared memory: lines along the depth, or lines of one depth.
template <class Tile, int length, Run direction>
struct Operand {
  static constexpr bool deep = direction == Run::along_depth;
  using Panel = ChunkPanel<deep ? length : Tile::depth, deep ? Tile::depth : length>;
  static constexpr int size = length * Tile::depth;
  /// So many threads copy, each of one line: this many chunks of it, one every `step` values.
  static constexpr int in_line = deep || Panel::in_line < 4 ? 2 : 4;
  static constexpr int threads = size / Panel::width / Panel::bands * in_line;
  static constexpr int pieces = Panel::in_line / in_line, step = in_line * chunk;

  /// Lines change places so that eight threads write to different banks.
  KOKKOS_FUNCTION static int line(int thread) {
    const int line = thread / in_line;
    return in_line == 2 ? line / 8 * 8 + line % 4 * 2 + line / 4 % 2 : line / 8 * 8 + line % 2 * 4 + line / 2 % 4;
  }
  KOKKOS_FUNCTION static int place(int thread) { return thread % in_line; }
  KOKKOS_FUNCTION static int across(int thread) { return deep ? line(thread) : place(thread) * chunk; }
  KOKKOS_FUNCTION static int along(int thread) { return deep ? place(thread) * chunk : line(thread); }

  /// Begins to copy a thread's part of the next panel.
  template <class Chunks>
  KOKKOS_FUNCTION static void copy(int thread, Chunks& chunks, const Bfloat16* valid, Bfloat16* panel) {
    if (threads < Tile::threads && thread >= threads) return;
    HALOGRAD_UNROLL
    for (int piece = 0; piece < pieces; ++piece) {
      Bfloat16* const to = panel + Panel::at(line(thread), place(thread) + in_line * piece);
      if constexpr (deep) {
        copy_chunk(chunks.at(), valid, to);
        chunks.advance(step);
      } else {
        copy_chunk(chunks.at(piece), valid, to);
      }
    }
    if constexpr (!deep) chunks.advance(Tile::depth);
  }

  KOKKOS_FUNCTION static float value(const Bfloat16* panel, int position, int depth) {
    const int row = deep ? position : depth, column = deep ? depth : position;
    return panel[Panel::at(row, column / chunk) + column % chunk];
  }
#if defined(HALOGRAD_WARP_GROUPS)
  /// Positions from a multiple of 64 on, sixteen deep.
  __device__ static SharedMatrix matrix(const Bfloat16* panel, int first, int piece) {
    constexpr int bytes = sizeof(Bfloat16);
    const Bfloat16* const from =
        deep ? panel + first * Panel::width + piece * 16 : panel + first / 64 * Panel::band + piece * 16 * Panel::width;
    return shared_matrix(from, Panel::band * bytes, 8 * Panel::width * bytes, Panel::width * bytes);
  }
#elif defined(__CUDA_ARCH__)
  /// Sixteen positions from `first` on, as mma.m16n8k16 has its A (rows first), or twice eight as it has its B.
  template <bool as_a>
  __device__ static void load(const Bfloat16* panel, int first, int piece, int lane, std::uint32_t (&words)[4]) {
    // of matrix lane / 8: A goes down the rows first, B along the depth
    const int half = as_a ? lane / 8 % 2 : lane / 16, deep_half = as_a ? lane / 16 : lane / 8 % 2;
    if constexpr (deep) {
      load_matrices<false>(panel + Panel::at(first + half * 8 + lane % 8, 2 * piece + deep_half), words);
    } else {
      load_matrices<true>(panel + Panel::at(16 * piece + deep_half * 8 + lane % 8, first / chunk + half), words);
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
    for (auto& fragment : sums_) {
      for (float& sum : fragment) sum = 0;
    }
  }
  static long teams(const Product& product) { return row_tiles(product) * column_tiles(product) * product.blocks(); }
  [[nodiscard]] KOKKOS_FUNCTION int steps() const {
    return static_cast<int>((product_.depth() + Tile::depth - 1) / Tile::depth);
  }

  /// Begins to copy the next panels.
  KOKKOS_FUNCTION void copy(Bfloat16* stage) {
    A::copy(thread_, a_, product_.any(), stage);
    B::copy(thread_, b_, product_.any(), stage + A::size);
  }
  /// Begins to multiply what all threads copied.
  KOKKOS_FUNCTION void multiply(const Bfloat16* stage) {
#if defined(HALOGRAD_WARP_GROUPS)
    constexpr bool a_across = !A::deep, b_across = !B::deep;
    begin_products();
    HALOGRAD_UNROLL
    for (int piece = 0; piece < Tile::pieces; ++piece) {
      multiply_matrices<a_across, b_across>(sums_, A::matrix(stage, thread_ / 128 * 64, piece),
                                            B::matrix(stage + A::size, 0, piece));
    }
    commit_products();
#elif defined(__CUDA_ARCH__)
    HALOGRAD_UNROLL
    for (int piece = 0; piece < Tile::pieces; ++piece) {
      std::uint32_t left[4];
      A::template load<true>(stage, first_row(), piece, thread_ % 32, left);
      HALOGRAD_UNROLL
      for (int n = 0; n < fragments; n += 2) {
        std::uint32_t right[4];
        B::template load<false>(stage + A::size, n * 8, piece, thread_ % 32, right);
        MmaBf16::multiply(sums_[n], left, {right[0], right[1]});
        MmaBf16::multiply(sums_[n + 1], left, {right[2], right[3]});
      }
    }
#else
    for (int n = 0; n < fragments; ++n) {
      for (int i = 0; i < 4; ++i) {
        const Entry at = MmaLayout::c(thread_ % 32, i);
        for (int k = 0; k < Tile::depth; ++k) {
          sums_[n][i] += A::value(stage, first_row() + at.row, k) * B::value(stage + A::size, n * 8 + at.column, k);
        }
      }
    }
#endif
  }
  /// Until then shared memory is read and sums are not there.
  KOKKOS_FUNCTION void finish_products() {
#if defined(HALOGRAD_WARP_GROUPS)
    wait_for_products(sums_);
#endif
  }
  /// What the stores of eight rows read is there before the first is made.
  KOKKOS_FUNCTION void store() {
    HALOGRAD_UNROLL
    for (int half = 0; half < 2; ++half) {
      const long row = row_ + first_row() + MmaLayout::c(thread_ % 32, 2 * half).row;
      const long result_row = row < product_.rows() ? product_.result_row(row) : -1;
      typename Product::template Before<run> before[runs] = {};
      HALOGRAD_UNROLL
      for (int i = 0; i < runs; ++i) {
        const long column = column_of(i);
        if (result_row >= 0 && column < product_.columns()) {
          before[i] = product_.template before<run>(block_, result_row, column);
        }
      }
      HALOGRAD_UNROLL
      for (int i = 0; i < runs; ++i) {
        float sums[run];
        line_up(i, half, sums);
        const long column = column_of(i);
        if (result_row >= 0 && column < product_.columns()) {
          product_.store(block_, result_row, column, sums, before[i]);
        }
      }
    }
  }

 private:
  static constexpr int fragments = Tile::columns / 8;
  /// A thread stores runs of results beside each other: on a device the pairs of four threads change hands, so that
  /// each has eight of one fragment, or four where there are but two fragments.
#if defined(__CUDA_ARCH__)
  static constexpr int run = fragments > 2 ? 8 : 4;
#else
  static constexpr int run = 2;
#endif
  static constexpr int runs = fragments * 2 / run;

  KOKKOS_FUNCTION static long row_tiles(const Product& product) {
    return (product.rows() + Tile::rows - 1) / Tile::rows;
  }
  KOKKOS_FUNCTION static long column_tiles(const Product& product) {
    return (product.columns() + Tile::columns - 1) / Tile::columns;
  }
  [[nodiscard]] KOKKOS_FUNCTION int first_row() const {
    return thread_ / 32 * 16;
  }
  [[nodiscard]] KOKKOS_FUNCTION long column_of(int i) const {
    const int lane = thread_ % 4, sharing = run / 2;
    return column_ + (i * sharing + lane % sharing) * 8 + lane / sharing * run;
  }
  KOKKOS_FUNCTION void line_up(int i, int half, float (&sums)[run]) const {
#if defined(__CUDA_ARCH__)
    constexpr int pairs = run / 4;
    const bool odd = thread_ % 2 != 0, upper = thread_ / 2 % 2 != 0;
    float quads[pairs][4];
    HALOGRAD_UNROLL
    for (int p = 0; p < pairs; ++p) {
      const int n = (i * pairs + p) * 2;
      exchange<2>(odd, 1, sums_[n] + 2 * half, sums_[n + 1] + 2 * half, quads[p]);
    }
    if constexpr (pairs == 2) {
      exchange<4>(upper, 2, quads[0], quads[1], sums);
    } else {
      HALOGRAD_UNROLL
      for (int j = 0; j < 4; ++j) sums[j] = quads[0][j];
    }
#else
    for (int j = 0; j < 2; ++j) sums[j] = sums_[i][2 * half + j];
#endif
  }
#if defined(__CUDA_ARCH__)
  /// Of two threads the one that is `second` gets both their `last`, the other both their `first`.
  template <int count>
  __device__ static void exchange(bool second, int distance, const float* first, const float* last, float* both) {
    HALOGRAD_UNROLL
    for (int j = 0; j < count; ++j) {
      const float kept = second ? last[j] : first[j];
      const float given = __shfl_xor_sync(0xffffffffU, second ? first[j] : last[j], distance);
      both[j] = second ? given : kept;
      both[count + j] = second ? kept : given;
    }
  }
#endif

  const Product& product_;
  int thread_;
  long row_, column_;
  int block_;
  typename Product::AChunks a_;
  typename Product::BChunks b_;
  float sums_[fragments][4];
};

/// A team's tile.
template <class Tile, class Product>
struct CopiedKernel {
  using Thread = CopyingThread<Tile, Product>;
  static constexpr int threads = Tile::threads;
  static constexpr int shared_bytes = static_cast<int>(sizeof(Bfloat16)) * Tile::stages * Thread::panels;
  Product product;

#if defined(KOKKOS_ENABLE_CUDA)
  __device__ void run(Bfloat16* shared) const {
    Thread thread(product, blockIdx.x, static_cast<int>(threadIdx.x));
    const int steps = thread.steps();
    for (int stage = 0; stage < Tile::stages - 1; ++stage) {
      if (stage < steps) thread.copy(shared + stage * Thread::panels);
      commit_copies();
    }
    int stage = 0, next = Tile::stages - 1;
    for (int step = 0; step < steps; ++step) {
      thread.finish_products();
      wait_for_copies<Tile::stages - 2>();
      __syncthreads();  // what all copied for this step is there, and nobody reads the stage that comes next
      thread.multiply(shared + stage * Thread::panels);
      if (step + Tile::stages - 1 < steps) thread.copy(shared + next * Thread::panels);
      commit_copies();
      stage = stage + 1 == Tile::stages ? 0 : stage + 1;
      next = next + 1 == Tile::stages ? 0 : next + 1;
    }
    thread.finish_products();
    thread.store();
  }
#endif

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

#if defined(KOKKOS_ENABLE_CUDA)
template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 2) run_copied(const __grid_constant__ Kernel kernel) {
  extern __shared__ __align__(1024) std::uint32_t shared[];  // bands begin at whole KiB
  kernel.run(reinterpret_cast<Bfloat16*>(shared));
}
#endif

/// Computes a product; `name`: a literal. A launch of its own where Kokkos would give a team 48 KiB of shared memory at
/// most.
template <class Tile, class Product>
void multiply_copied(const ExecutionSpace& exec, const char* name, const Product& product) {
  using Kernel = CopiedKernel<Tile, Product>;
  const Kernel kernel{product};
  const long teams = Kernel::Thread::teams(product);
#if defined(KOKKOS_ENABLE_CUDA)
  static const bool has_room = [] {
    require_success(
        cudaFuncSetAttribute(run_copied<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::shared_bytes),
        "shared memory for tiles");
    return true;
  }();
  static_cast<void>(has_room);
  std::uint64_t id = 0;
  Kokkos::Tools::beginParallelFor(label(name), Kokkos::Tools::Experimental::device_id(exec), &id);
  run_copied<<<static_cast<unsigned>(teams), Kernel::threads, Kernel::shared_bytes, exec.cuda_stream()>>>(kernel);
  require_success(cudaGetLastError(), name);
  Kokkos::Tools::endParallelFor(id);
#else
  Kokkos::parallel_for(label(name), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, teams),
                       [kernel](long team) { kernel.run_on_host(team); });
#endif
}

}  // namespace halograd::device
