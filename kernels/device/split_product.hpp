#pragma once

#include <algorithm>

#include "kernels/chunks.hpp"
#include "kernels/device/tile.hpp"

/// Products of few tiles, cut along their depth so that all of a device has work: parts of the sums go to memory, and
/// are then added in order.
namespace halograd::device {

struct DepthParts {
  int parts = 1;
  long depth = 0;  ///< of a part

  /// By the extents alone: the same bits on every device.
  DepthParts(long rows, long columns, long all, int blocks) : depth(all) {
    constexpr long step = 64;
    const long most = std::min(wanted_tiles / (tiles(rows, tile) * column_tiles(columns) * blocks), all / least_depth);
    if (most < 2) return;
    depth = tiles(tiles(all, most), step) * step;
    parts = static_cast<int>(tiles(all, depth));
  }
  /// The most sums that the parts of a product leave, with as many rows or fewer.
  [[nodiscard]] static std::size_t most_sums(long rows, long columns, long all, int blocks) {
    if (all < 2 * least_depth) return 0;
    const long most = std::min(rows * (all / least_depth), wanted_tiles * tile / (column_tiles(columns) * blocks));
    return static_cast<std::size_t>(most * columns * blocks);
  }

 private:
  static constexpr long wanted_tiles = 264, least_depth = 128, tile = 128;
  static long tiles(long length, long width) { return (length + width - 1) / width; }
  static long column_tiles(long columns) { return tiles(columns, tile); }
};

/// The parts of a product as blocks of their own, (block, part).
template <class Product>
struct SplitProduct : StoredAlone {
  using Value = typename Product::Value;
  using Stored = typename Product::Stored;
  using Factor = typename Product::Factor;
  using Place = typename Product::Place;
  static constexpr Run a_run = Product::a_run, b_run = Product::b_run;
  Product product;
  DepthParts cut;
  Value* sums;  ///< (block, part, rows, columns)

  [[nodiscard]] KOKKOS_FUNCTION long rows() const { return product.rows(); }
  [[nodiscard]] KOKKOS_FUNCTION long columns() const { return product.columns(); }
  [[nodiscard]] KOKKOS_FUNCTION long depth() const { return cut.depth; }
  [[nodiscard]] int blocks() const { return product.blocks() * cut.parts; }
  [[nodiscard]] KOKKOS_FUNCTION long begin(int block) const { return block % cut.parts * cut.depth; }

  [[nodiscard]] KOKKOS_FUNCTION Place place(int block, long row) const { return product.place(block / cut.parts, row); }
  template <int count>
  KOKKOS_FUNCTION void a(const Place& place, int block, long row, long at, Stored (&found)[count]) const {
    product.a(place, block / cut.parts, row, begin(block) + at, found);
  }
  template <int count>
  KOKKOS_FUNCTION void b(int block, long column, long at, Factor (&found)[count]) const {
    product.b(block / cut.parts, column, begin(block) + at, found);
  }
  template <int count>
  KOKKOS_FUNCTION void store(int block, long row, long column, const Value (&found)[count],
                             const Before<count>&) const {
    Value* const to = sums + (block * rows() + row) * columns() + column;
    store_quads(found, to);
  }

  // as copied_tile.hpp has it
  [[nodiscard]] KOKKOS_FUNCTION const Stored* any() const { return product.any(); }
  template <class Chunks>
  struct Part : Chunks {
    KOKKOS_FUNCTION Part(const SplitProduct& p, int block, long line, int at)
        : Chunks(p.product, block / p.cut.parts, line, static_cast<int>(p.begin(block)) + at) {}
  };
};
template <class Product>
struct SplitChunks : SplitProduct<Product> {
  using AChunks = typename SplitProduct<Product>::template Part<typename Product::AChunks>;
  using BChunks = typename SplitProduct<Product>::template Part<typename Product::BChunks>;
};

/// Adds the parts and stores the sums as the product does.
template <class Product>
struct StoreSums {
  SplitProduct<Product> split;
  KOKKOS_FUNCTION void operator()(const long index) const {
    const long columns = split.columns(), results = split.rows() * columns;
    const int block = static_cast<int>(index / results), parts = split.cut.parts;
    const long at = index % results;
    typename Product::Value sum = 0;
    for (int part = 0; part < parts; ++part) {
      sum += split.sums[(static_cast<long>(block) * parts + part) * results + at];
    }
    const Divided place(at, static_cast<int>(columns));
    const long row = split.product.result_row(place.quotient);
    split.product.store(block, row, place.rest, {sum}, split.product.template before<1>(block, row, place.rest));
  }
};

/// Computes a product by run(product), in parts where its tiles are few; `Split` is one of the two above, `sums` has
/// room for DepthParts::most_sums. `name`: a literal.
template <template <class> class Split, class Product, class Run>
void run_in_parts(const ExecutionSpace& exec, const char* name, const Product& product, void* sums, const Run& run) {
  const DepthParts cut(product.rows(), product.columns(), product.depth(), product.blocks());
  if (cut.parts == 1) return run(product);
  const SplitProduct<Product> split{{}, product, cut, static_cast<typename Product::Value*>(sums)};
  run(Split<Product>{split});
  Kokkos::parallel_for(label(name), FlatRange(exec, 0, product.rows() * product.columns() * product.blocks()),
                       StoreSums<Product>{split});
}

}  // namespace halograd::device
