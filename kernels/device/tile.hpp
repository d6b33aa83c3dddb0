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
///   using Value, Stored, Factor;  static constexpr Run a_run, b_run;    sums, what A and what B hold
///   long rows() const, columns() const, depth() const;  int blocks() const    blocks: independent products
///   Place                                                  what a thread keeps of its row of A
///   Place place(int block, long row) const
///   void a(const Place&, int block, long row, long depth, Stored (&values)[N]) const    values of A, zero outside
///   void b(int block, long column, long depth, Factor (&values)[N]) const               values of B, zero outside
///   long result_row(long row) const                                                     where a row of C is stored:
///   Before<N> before(int block, long result_row, long column) const                     what must be read first
///   void store(int block, long result_row, long column, const Value (&sums)[N], const Before<N>&) const
///
/// where the N values follow each other along the depth, or along rows or columns, as a_run and b_run say.
namespace halograd::device {

enum class Run { along_depth, across };

/// What products have in common whose rows are stored in their order and whose stores read nothing.
struct StoredAlone {
  [[nodiscard]] KOKKOS_FUNCTION static long result_row(long row) { return row; }
  template <int count>
  struct Before {};
  template <int count>
  [[nodiscard]] KOKKOS_FUNCTION static Before<count> before(int, long, long) {
    return {};
  }
};

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

/// How the threads of a team fill a panel (depth, length) in shared memory. Each makes some words of it, which follow
/// each other in one direction, from a run of values along the depth, or across from one for each value in a word.
template <class Tile, int length, Run direction>
struct Panel {
  using Word = typename Tile::Word;
  static constexpr bool deep = direction == Run::along_depth;
  static constexpr int in_word = Tile::values_in_word;
  static constexpr int words = length * Tile::depth / Tile::threads / in_word;
  static constexpr int runs = deep ? 1 : in_word, run = deep ? words * in_word : words;
  static constexpr int runs_in_line = (deep ? Tile::depth : length) / run;
  static constexpr int stride = length + 8;  // whole quads, and the threads of a warp in different banks
  static constexpr int size = stride * Tile::depth / in_word;  // words
  static_assert(words >= 1 && runs_in_line * run == (deep ? Tile::depth : length));

  KOKKOS_FUNCTION static int across(int thread) { return deep ? thread / runs_in_line : thread % runs_in_line * run; }
  KOKKOS_FUNCTION static int along(int thread) {
    return deep ? thread % runs_in_line * run : thread / runs_in_line * in_word;
  }
  template <class T>
  KOKKOS_FUNCTION static void fill(int thread, const T (&values)[runs][run], Word* panel) {
    Word* const to = panel + along(thread) / in_word * stride + across(thread);
    Quad<Word> quad;
    HALOGRAD_UNROLL
    for (int i = 0; i < words; ++i) {
      if constexpr (in_word == 1) {
        quad.value[i % 4] = Tile::word(values[0][i]);
      } else {
        quad.value[i % 4] =
            deep ? Tile::word(values[0][2 * i], values[0][2 * i + 1]) : Tile::word(values[0][i], values[runs - 1][i]);
      }
      if constexpr (deep || words % 4 != 0) {
        to[deep ? i * stride : i] = quad.value[i % 4];
      } else {
        if (i % 4 == 3) *reinterpret_cast<Quad<Word>*>(to + i - 3) = quad;
      }
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
    HALOGRAD_UNROLL
    for (int i = 0; i < PanelA::runs; ++i) {
      product_.a(place_, block_, row_ + PanelA::across(thread_), depth + PanelA::along(thread_) + i, a_[i]);
    }
    HALOGRAD_UNROLL
    for (int i = 0; i < PanelB::runs; ++i) {
      product_.b(block_, column_ + PanelB::across(thread_), depth + PanelB::along(thread_) + i, b_[i]);
    }
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
    const auto result_row = [this](int row) {
      return row_ + row < product_.rows() ? product_.result_row(row_ + row) : -1;
    };
    results_.for_each(thread_, result_row, [this](long row, int column, T sum) {
      const long c = column_ + column;
      if (row >= 0 && c < product_.columns()) {
        product_.store(block_, row, c, {sum}, product_.template before<1>(block_, row, c));
      }
    });
  }

 private:
  const Product& product_;
  int thread_, block_;
  long row_, column_;
  typename Product::Place place_;
  typename Product::Stored a_[PanelA::runs][PanelA::run];
  typename Product::Factor b_[PanelB::runs][PanelB::run];
  typename Tile::Results results_;
};

/// A team's tile.
template <class Tile, class Product>
struct TileKernel {
  using Thread = TileThread<Tile, Product>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Tile::threads, 2>>;
  static constexpr int threads = Tile::threads;
  static constexpr std::size_t alignment = 64,
                               shared_bytes = sizeof(typename Tile::Word) * Thread::stages * Thread::panels;
  Product product;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const std::size_t bytes = shared_bytes;  // get_shmem_aligned takes a reference
    auto* const shared = static_cast<typename Tile::Word*>(team.team_scratch(0).get_shmem_aligned(bytes, alignment));
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
    std::vector<Thread> all;
    all.reserve(Tile::threads);
    for (int thread = 0; thread < Tile::threads; ++thread) all.emplace_back(product, team, thread);
    const long steps = all.front().steps();
    for (long step = 0; step < steps; ++step) {
      for (Thread& thread : all) {
        thread.fetch(step);
        thread.fill(step, shared);
      }
      for (Thread& thread : all) thread.multiply(step, shared);
    }
    for (const Thread& thread : all) thread.store();
  }
};

/// Computes a product by the teams of a kernel. `name`: a literal.
template <class Kernel, class Product>
void run_tiles(const ExecutionSpace& exec, const char* name, const Product& product) {
  const long teams = Kernel::Thread::teams(product);
  const Kernel kernel{product};
  if constexpr (runs_on_host) {
    Kokkos::parallel_for(label(name), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, teams),
                         [kernel](long team) { kernel.run_on_host(team); });
  } else {
    Kokkos::parallel_for(
        label(name),
        typename Kernel::Policy(exec, static_cast<int>(teams), Kernel::threads)
            .set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::shared_bytes + Kernel::alignment))),
        kernel);
  }
}
template <class Tile, class Product>
void multiply_tiles(const ExecutionSpace& exec, const char* name, const Product& product) {
  run_tiles<TileKernel<Tile, Product>>(exec, name, product);
}

}  // namespace halograd::device
