#pragma once

#include <vector>

#include "kernels/device/tile_results.hpp"
#include "kernels/label.hpp"
#include "kernels/types.hpp"

/// Matrix products C (rows, columns) = A (rows, depth) B (depth, columns) by tiles: a team computes one tile of C, each
/// thread some results of it in registers, from panels of A and B in the team's shared memory; while it multiplies, it
/// fetches what the next panels hold (Volkov and Demmel, 2008; Tan et al., 2011). A product says where A and B come
/// from and where C goes:
///
///   using Value;  static constexpr Run a_run, b_run;
///   long rows() const, columns() const, depth() const;  int blocks() const    blocks: independent products
///   Place                                                  what a thread keeps of its row of A
///   Place place(int block, long row) const
///   void a(const Place&, int block, long row, long depth, Value (&values)[N]) const     values of A, zero outside
///   void b(int block, long column, long depth, Value (&values)[N]) const                values of B, zero outside
///   void store(int block, long row, long column, Value sum) const                       inside C
///
/// where the N values follow each other along the depth, or along rows or columns, as a_run and b_run say.
namespace halograd::device {

enum class Run { along_depth, across };

/// `count` values from an address; `quads`: it is a multiple of four values.
template <int count, class T>
KOKKOS_INLINE_FUNCTION void load(const T* from, bool quads, T (&values)[count]) {
  if constexpr (count % 4 == 0) {
    if (quads) {
      HALOGRAD_UNROLL
      for (int i = 0; i < count; i += 4) {
        const Quad<T> quad = *reinterpret_cast<const Quad<T>*>(from + i);
        for (int j = 0; j < 4; ++j) values[i + j] = quad.value[j];
      }
      return;
    }
  }
  HALOGRAD_UNROLL
  for (int i = 0; i < count; ++i) values[i] = from[i];
}

/// How the threads of a team fill a panel (depth, length) in shared memory: each fetches `run` values.
template <class Tile, int length, Run direction>
struct Panel {
  static constexpr bool deep = direction == Run::along_depth;
  static constexpr int run = length * Tile::depth / Tile::threads;
  static constexpr int runs_in_line = (deep ? Tile::depth : length) / run;
  static constexpr int stride = length + 8;  // whole quads, and the threads of a warp in different banks
  static constexpr int size = stride * Tile::depth / Tile::values_in_word;  // words
  static_assert(run >= 1 && runs_in_line * run == (deep ? Tile::depth : length));

  KOKKOS_FUNCTION static int across(int thread) { return deep ? thread / runs_in_line : thread % runs_in_line * run; }
  KOKKOS_FUNCTION static int along(int thread) { return deep ? thread % runs_in_line * run : thread / runs_in_line; }
  KOKKOS_FUNCTION static void fill(int thread, const typename Tile::Value (&values)[run], typename Tile::Word* panel) {
    HALOGRAD_UNROLL
    for (int i = 0; i < run; ++i) {
      const int k = along(thread) + (deep ? i : 0), at = across(thread) + (deep ? 0 : i);
      Tile::put(panel + k / Tile::values_in_word * stride + at, k % Tile::values_in_word, values[i]);
    }
  }
};

/// What one thread does for a tile.
template <class Tile, class Product>
class TileThread {
 public:
  using T = typename Tile::Value;
  using Word = typename Tile::Word;
  using PanelA = Panel<Tile, Tile::rows, Product::a_run>;
  using PanelB = Panel<Tile, Tile::columns, Product::b_run>;
  static constexpr int panels = PanelA::size + PanelB::size;  // words of a stage
  static constexpr int stages = 2;

  KOKKOS_FUNCTION TileThread(const Product& product, long team, int thread) : product_(product), thread_(thread) {
    const long row_tiles = tiles(product.rows(), Tile::rows), column_tiles = tiles(product.columns(), Tile::columns);
    row_ = team / column_tiles % row_tiles * Tile::rows;
    column_ = team % column_tiles * Tile::columns;
    block_ = static_cast<int>(team / (row_tiles * column_tiles));
    place_ = product.place(block_, row_ + PanelA::across(thread));
  }
  KOKKOS_FUNCTION static long tiles(long length, int tile) { return (length + tile - 1) / tile; }
  static long teams(const Product& product) {
    return tiles(product.rows(), Tile::rows) * tiles(product.columns(), Tile::columns) * product.blocks();
  }
  [[nodiscard]] KOKKOS_FUNCTION long steps() const { return tiles(product_.depth(), Tile::depth); }

  /// From device memory to registers.
  KOKKOS_FUNCTION void fetch(long step) {
    const long depth = step * Tile::depth;
    product_.a(place_, block_, row_ + PanelA::across(thread_), depth + PanelA::along(thread_), a_);
    product_.b(block_, column_ + PanelB::across(thread_), depth + PanelB::along(thread_), b_);
  }
  /// From registers to the shared memory of a step.
  KOKKOS_FUNCTION void fill(long step, Word* shared) const {
    Word* const stage = shared + step % stages * panels;
    PanelA::fill(thread_, a_, stage);
    PanelB::fill(thread_, b_, stage + PanelA::size);
  }
  KOKKOS_FUNCTION void multiply(long step, const Word* shared) {
    const Word* const stage = shared + step % stages * panels;
    results_.template multiply<PanelA::stride, PanelB::stride>(thread_, stage, stage + PanelA::size);
  }
  KOKKOS_FUNCTION void store() const {
    results_.for_each(thread_, [this](int row, int column, T sum) {
      const long r = row_ + row, c = column_ + column;
      if (r < product_.rows() && c < product_.columns()) product_.store(block_, r, c, sum);
    });
  }

 private:
  const Product& product_;
  int thread_, block_;
  long row_, column_;
  typename Product::Place place_;
  T a_[PanelA::run], b_[PanelB::run];
  typename Tile::Results results_;
};

/// A team's tile.
template <class Tile, class Product>
struct TileKernel {
  using Thread = TileThread<Tile, Product>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Tile::threads, 2>>;
  static constexpr std::size_t shared_bytes = sizeof(typename Tile::Word) * Thread::stages * Thread::panels;
  Product product;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const std::size_t bytes = shared_bytes;  // get_shmem_aligned takes a reference
    auto* const shared = static_cast<typename Tile::Word*>(team.team_scratch(0).get_shmem_aligned(bytes, 64));
    Thread thread(product, team.league_rank(), team.team_rank());
    const long steps = thread.steps();
    thread.fetch(0);
    thread.fill(0, shared);
    team.team_barrier();
    for (long step = 0; step < steps; ++step) {
      if (step + 1 < steps) thread.fetch(step + 1);
      thread.multiply(step, shared);
      if (step + 1 < steps) thread.fill(step + 1, shared);
      team.team_barrier();
    }
    thread.store();
  }

  /// The same on a host, whose teams are smaller: what the threads do between two barriers one after the other.
  void run_on_host(long team) const {
    std::vector<Quad<typename Tile::Word>> panels(shared_bytes / sizeof(Quad<typename Tile::Word>));
    auto* const shared = reinterpret_cast<typename Tile::Word*>(panels.data());
    std::vector<Thread> threads;
    threads.reserve(Tile::threads);
    for (int thread = 0; thread < Tile::threads; ++thread) threads.emplace_back(product, team, thread);
    const long steps = threads.front().steps();
    for (long step = 0; step < steps; ++step) {
      for (Thread& thread : threads) {
        thread.fetch(step);
        thread.fill(step, shared);
      }
      for (Thread& thread : threads) thread.multiply(step, shared);
    }
    for (const Thread& thread : threads) thread.store();
  }
};

/// Computes a product. `name`: a literal.
template <class Tile, class Product>
void multiply_tiles(const ExecutionSpace& exec, const char* name, const Product& product) {
  using Kernel = TileKernel<Tile, Product>;
  const long teams = Kernel::Thread::teams(product);
  const Kernel kernel{product};
  if constexpr (runs_on_host) {
    Kokkos::parallel_for(label(name), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, teams),
                         [kernel](long team) { kernel.run_on_host(team); });
  } else {
    // the padding to 64 bytes is the allocator's
    Kokkos::parallel_for(label(name),
                         typename Kernel::Policy(exec, static_cast<int>(teams), Tile::threads)
                             .set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::shared_bytes) + 64)),
                         kernel);
  }
}

}  // namespace halograd::device
