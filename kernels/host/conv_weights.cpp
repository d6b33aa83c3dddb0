#include <cstring>

#include "kernels/host/blocking.hpp"
#include "kernels/host/conv.hpp"
#include "kernels/host/gather.hpp"
#include "kernels/host/microkernel.hpp"

namespace halograd::host {
namespace {

/// Pixels that the weight gradient takes at a time: its tables and its block of dy stay in the second-level cache.
constexpr int gradient_pixels = 128;
/// Partial sums of the bias gradient: fixed, so that the result does not depend on the number of threads.
constexpr int bias_chunks = 64;

template <class T>
struct GradientScratch {
  T* zeros;
  const T** tables;
  T* padded_dy;
  T* bias_sums;
  TapMap::Tap* taps;
  GradientScratch(Scratch& scratch, const ConvShape& shape)
      : zeros(scratch.take<T>(shape.channels)),
        tables(scratch.take<const T*>(static_cast<long>(concurrency()) * shape.taps() * gradient_pixels)),
        padded_dy(scratch.take<T>(static_cast<long>(concurrency()) * gradient_pixels * shape.groups *
                                  ColumnBlocks<T>{shape.filters / shape.groups}.padded())),
        bias_sums(scratch.take<T>(static_cast<long>(bias_chunks) * shape.filters)),
        taps(scratch.take<TapMap::Tap>(shape.taps())) {}
};

template <class T>
void sum_bias_gradient(const Exec& exec, const ConvShape& shape, const T* dy, T* dbias, T* sums) {
  const long pixels = shape.out_pixels();
  const int filters = shape.filters;
  parallel_tasks(exec, "halograd::conv_backward_bias", bias_chunks, [&](int chunk) {
    const Share share(pixels, chunk, bias_chunks);
    T* sum = sums + static_cast<long>(chunk) * filters;
    std::fill(sum, sum + filters, T(0));
    for (long p = share.begin; p < share.end; ++p) {
      const T* row = dy + p * filters;
      for (int k = 0; k < filters; ++k) sum[k] += row[k];
    }
  });
  std::copy(sums, sums + filters, dbias);
  for (int chunk = 1; chunk < bias_chunks; ++chunk) {
    for (int k = 0; k < filters; ++k) dbias[k] += sums[static_cast<long>(chunk) * filters + k];
  }
}

}  // namespace

template <class T>
std::size_t weights_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  GradientScratch<T>(scratch, shape);
  return scratch.used();
}

template <class T>
void conv_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, T* dweights, T* dbias,
                           std::byte* workspace) {
  const int in_group = shape.channels / shape.groups;
  const ColumnBlocks<T> blocks{shape.filters / shape.groups};
  Scratch pieces(workspace);
  const GradientScratch<T> scratch(pieces, shape);
  if (dbias != nullptr) sum_bias_gradient(exec, shape, dy, dbias, scratch.bias_sums);
  std::fill(scratch.zeros, scratch.zeros + shape.channels, T(0));
  const TapMap map = TapMap::forward(shape, scratch.taps);
  const Lattice lattice{shape.batch, shape.out_extent(), {0, 0, 0}, {1, 1, 1}};
  const long pixels = lattice.pixels();
  const int taps = shape.taps();
  const long rows = static_cast<long>(taps) * in_group;
  const bool pad = blocks.columns % lanes<T> != 0;
  const long right_pitch = pad ? static_cast<long>(shape.groups) * blocks.padded() : shape.filters;
  const int tasks = concurrency();

  // A task owns a contiguous share of the rows (tap, channel) of every group: no partial sums to combine, so the result
  // does not depend on the number of threads.
  parallel_tasks(exec, "halograd::conv_backward_weights", tasks, [&](int task) {
    const Share share(rows, task, tasks);
    if (share.begin == share.end) return;
    TapTable<T> table(map, scratch.tables + static_cast<long>(task) * taps * gradient_pixels, gradient_pixels);
    T* padded = scratch.padded_dy + static_cast<long>(task) * gradient_pixels * shape.groups * blocks.padded();
    if (pad) std::fill(padded, padded + gradient_pixels * shape.groups * blocks.padded(), T(0));
    for (long first = 0; first < pixels; first += gradient_pixels) {
      const int count = static_cast<int>(std::min<long>(gradient_pixels, pixels - first));
      table.fill(lattice, first, count, x, shape.channels, shape.groups == 1, scratch.zeros);
      const int slot_rows = table.run() * in_group;
      for (int p = 0; pad && p < count; ++p) {
        for (int group = 0; group < shape.groups; ++group) {
          std::memcpy(padded + p * right_pitch + static_cast<long>(group) * blocks.padded(),
                      dy + (first + p) * shape.filters + static_cast<long>(group) * blocks.columns,
                      sizeof(T) * blocks.columns);
        }
      }
      const T* right = pad ? padded : dy + first * shape.filters;
      for (int group = 0; group < shape.groups; ++group) {
        for (int block = 0; block < blocks.count(); ++block) {
          const int packs = blocks.packs_of(block);
          const int step = tile_rows(packs);
          for (long row = share.begin; row < share.end; row += step) {
            const T* const* row_table[tile_rows(1)];
            int offset[tile_rows(1)];
            const int valid = static_cast<int>(std::min<long>(step, share.end - row));
            for (int m = 0; m < step; ++m) {
              const long at = row + std::min(m, valid - 1);
              row_table[m] = table.line(static_cast<int>(at / slot_rows));
              offset[m] = static_cast<int>(at % slot_rows) + group * in_group;
            }
            const long group_columns = static_cast<long>(group) * (pad ? blocks.padded() : blocks.columns);
            run_tile(packs,
                     OuterTile<T>{count, row_table, offset, right + group_columns + blocks.begin(block), right_pitch,
                                  dweights + row * shape.filters + static_cast<long>(group) * blocks.columns +
                                      blocks.begin(block),
                                  shape.filters, valid, blocks.columns - blocks.begin(block), first > 0});
          }
        }
      }
    }
  });
}

#define HALOGRAD_INSTANTIATE(T)                                \
  template std::size_t weights_workspace<T>(const ConvShape&); \
  template void conv_backward_weights<T>(const Exec&, const ConvShape&, const T*, const T*, T*, T*, std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
