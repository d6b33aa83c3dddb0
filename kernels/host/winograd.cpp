#include "kernels/host/winograd.hpp"

#include "kernels/host/prefetch.hpp"
#include "kernels/host/winograd_cut.hpp"
#include "kernels/host/winograd_kernels.hpp"

namespace halograd::host {
namespace {

/// A^T p A of a pack of columns, at one tile.
template <int r, class T>
void store_tile(const TilePass& pass, const Target<T>& to, const TileAt& at, int column, const Wide<T>* products,
                long pitch, const Wide<T>* bias) {
  constexpr int m = winograd_outputs;
  const auto product = [&](int plane) { return load(products + plane * pitch); };
  const Pack<T> added = load(bias);
  const long pixel = pass.columns, row = pass.out_width * pixel;
  const long offset =
      ((static_cast<long>(at.n) * pass.out_height + at.i * m) * pass.out_width + at.j * m) * pixel + column;
  const int valid_rows = pass.out_height - at.i * m, valid_columns = pass.out_width - at.j * m;
  const int count = pass.columns - column;
  const Target<T> target = to.from(offset);
  if (valid_rows >= m && valid_columns >= m && count >= lanes<T>) {
    target.store_whole([&](const auto& store_pack) {
      transform_points<OutputMap, r, T>(
          product, [&](int i, int j, const Pack<T>& value) { store_pack(value + added, i * row + j * pixel); });
    });
    return;
  }
  Pack<T> tile[m][m];
  transform_points<OutputMap, r, T>(product, [&](int i, int j, const Pack<T>& value) { tile[i][j] = value + added; });
  for (int i = 0; i < std::min(m, valid_rows); ++i) {
    for (int j = 0; j < std::min(m, valid_columns); ++j) target.store(tile[i][j], i * row + j * pixel, count);
  }
}

/// What a pass reads and writes.
template <class T>
struct WinogradOperands {
  const ConvShape& shape;
  TilePass pass;
  const T* in;
  const Wide<T>* weights;
  KernelView view;
  const Wide<T>* bias;  ///< (pass.columns), or null
  Target<T> target;
};

template <int r, class T>
struct WinogradProduct {
  static constexpr int planes = winograd_planes(r);
  const ConvShape& shape;
  const TilePass pass;
  const WinogradCut<T> cut;
  const T* in;
  const Wide<T>* weights;
  KernelView view;
  Target<T> target;
  WinogradScratch<T> scratch;

  /// Transformed tiles, planes apart: floats, or integers with the scales of their rows.
  struct Inputs {
    Wide<T>* values;
    std::int16_t* integers;
    float* scales;
  };
  /// From row `row` of the matrix that is the first plane of a piece of the depth, or of a task's tiles.
  [[nodiscard]] Inputs inputs_at(long matrix, long row) const {
    const long at = matrix * cut.input_pitch() + row * cut.input_columns;
    if (!cut.integers) return {scratch.inputs + at, nullptr, nullptr};
    return {nullptr, scratch.integers + at, scratch.row_scales + matrix * cut.input_rows() + row};
  }

  /// Into (piece of the depth, plane, row, column), from there on.
  void transform_inputs(const TileBlock& block, int task, long matrix, long first_row) const {
    for (int begin = 0; begin < pass.depth; begin += cut.piece, matrix += planes) {
      const int depth = std::min(cut.piece, pass.depth - begin);
      const PatchSource<T> source{in + begin, pass.height,      pass.width,      depth,
                                  pass.depth, -pass.pad_height, -pass.pad_width, scratch.zeros};
      const Inputs to = inputs_at(matrix, first_row);
      const auto transform = [&](long tile, int tiles, Wide<T>* values, long pitch) {
        transform_patches<winograd_points(r)>(source, pass, tile, tiles, values, cut.input_columns,
                                              [&](const auto& pixels, Wide<T>* at) {
                                                transform_planes<InputMap, r, false>(pixels, at, pitch);
                                                transform_planes<InputMap, r, true>(pixels, at, pitch);
                                              });
      };
      block.for_read(
          pass, 0, block.rows_read(pass),
          [&](long tile, int tiles, long row) {
            if (!cut.integers) return transform(tile, tiles, to.values + row * cut.input_columns, cut.input_pitch());
            if constexpr (may_be_integers<T>) {
              float* const values = scratch.inputs + task * planes * cut.tile_pitch();
              const float limit = integer_limit(depth);
              for (const long end = row + tiles; row < end; ++row) {
                transform(tile++, 1, values, cut.tile_pitch());
                round_to_rows(values, cut.tile_pitch(), planes, whole_packs<T>(depth), limit,
                              to.integers + row * cut.input_columns, cut.input_pitch(), to.scales + row,
                              cut.input_rows());
              }
            }
          },
          [&](int tiles, long row) {
            for (int plane = 0; plane < planes; ++plane) {
              const long at = plane * cut.input_pitch() + row * cut.input_columns, count = tiles * cut.input_columns;
              if (!cut.integers) {
                std::fill_n(to.values + at, count, Wide<T>(0));
              } else {
                std::fill_n(to.integers + at, count, std::int16_t{0});
                std::fill_n(to.scales + plane * cut.input_rows() + row, tiles, 0.0F);
              }
            }
          });
    }
  }

  /// The products of tiles in a block of columns, over `depth` channels, added to what there is or not. `next_inputs`
  /// is fetched in the meantime, as is what the first block's outputs overwrite.
  void multiply(const TileBlock& tiles, int block, int depth, bool accumulate, const Inputs& inputs,
                const Wide<T>* kernels, const float* kernel_scales, Wide<T>* products, Prefetch& next_inputs) const {
    const int packs = cut.blocks.packs(block), rows = static_cast<int>(tiles.rows());
    const int width = packs * lanes<T>;
    Prefetch outputs, masks;
    if (cut.keeps_kernels && block == 0) {
      outputs = fetched(target.out, pass.out_values(), tiles, products_in_block(tiles, packs));
      masks = fetched(target.relu_output, pass.out_values(), tiles, products_in_block(tiles, packs));
    }
    const auto fetch = [&] {
      outputs.write();
      masks.read();
    };
    for (int plane = 0; plane < planes; ++plane) {
      for (int tap = 0; tap < pass.taps; ++tap, kernel_scales += cut.blocks.width) {
        const long row = static_cast<long>(tap) * tiles.count;
        const long left = plane * cut.input_pitch() + row * cut.input_columns;
        const Wide<T>* const right = kernels + plane * cut.kernel_pitch() + static_cast<long>(tap) * depth * width;
        Wide<T>* const out = products + plane * cut.product_pitch();
        if constexpr (may_be_integers<T>) {
          if (cut.integers) {
            multiply_integer_panel(packs, rows,
                                   {.pairs = (depth + 1) / 2,
                                    .left = inputs.integers + left,
                                    .left_step = cut.input_columns,
                                    .left_pair = 2,
                                    .right = reinterpret_cast<const std::int16_t*>(right),
                                    .right_pair = 2L * width,
                                    .row_scales = inputs.scales + plane * cut.input_rows() + row,
                                    .column_scales = kernel_scales,
                                    .out = out,
                                    .out_pitch = width,
                                    .accumulate = accumulate || tap > 0},
                                   next_inputs, fetch);
            continue;
          }
        }
        multiply_panel<false>(packs, rows, panel_rows(packs),
                              PanelTile<Wide<T>>{depth, inputs.values + left, cut.input_columns, right, width, out,
                                                 width, accumulate || tap > 0},
                              next_inputs, fetch);
      }
    }
  }

  /// The outputs of tiles in a block of columns.
  void store_outputs(const TileBlock& tiles, int block, const Wide<T>* products) const {
    const int packs = cut.blocks.packs(block);
    const int width = packs * lanes<T>;
    tiles.for_written(pass, 0, tiles.rows(), [&](long first, int count, long row) {
      TileAt at(pass, first);
      for (const Wide<T>* product = products + row * width; count > 0; --count, product += width, at.next(pass)) {
        for (int v = 0; v < packs; ++v) {
          const int column = cut.blocks.begin(block) + v * lanes<T>;
          store_tile<r, T>(pass, target, at, column, product + v * lanes<T>, cut.product_pitch(),
                           scratch.bias + column);
        }
      }
    });
  }

  /// What goes with a block's tiles in an image; nothing in volumes, where it is no stretch of memory.
  Prefetch fetched(const T* images, long values, const TileBlock& tiles, long pieces) const {
    return pass.in_volumes ? Prefetch() : Prefetch(images, values, pass.tiles(), tiles.first, tiles.count, pieces);
  }
  /// Register tiles in the matrix products of a block and a number of packs of columns.
  [[nodiscard]] long products_in_block(const TileBlock& tiles, int packs) const {
    return static_cast<long>(planes) * pass.taps * ((tiles.rows() + panel_rows(packs) - 1) / panel_rows(packs));
  }
  /// Calls visit(block) for a task's share of the tiles.
  template <class Visit>
  void for_blocks(int task, int tasks, const Visit& visit) const {
    const long all = static_cast<long>(pass.volumes) * pass.out_slices;
    const Share slices = pass.in_volumes ? Share(all, task, tasks) : Share(all, 0, 1);
    const Share tiles = pass.in_volumes ? Share(pass.slice_tiles(), 0, 1) : Share(pass.slice_tiles(), task, tasks);
    for (long slice = slices.begin, count = 0; slice < slices.end; slice += count) {
      const long in_volume = slice % pass.out_slices;
      count = std::min({static_cast<long>(cut.slices), pass.out_slices - in_volume, slices.end - slice});
      for (long first = tiles.begin; first < tiles.end; first += cut.tiles) {
        visit(TileBlock{slice / pass.out_slices, static_cast<int>(in_volume), static_cast<int>(count), first,
                        static_cast<int>(std::min<long>(cut.tiles, tiles.end - first))});
      }
    }
  }
  [[nodiscard]] Wide<T>* products_of(int task) const { return scratch.products + task * planes * cut.product_pitch(); }

  static TileBlock tiles_of_images(long first, long count) { return {0, 0, 1, first, static_cast<int>(count)}; }
  /// Values [begin, end) of a tap's depth, in a block of columns, to (plane, value, column).
  void transform_kernels_of(int block, int tap, int begin, int end, Wide<T>* to) const {
    transform_kernels<r>(shape, weights, view, {tap, cut.blocks.begin(block), cut.blocks.packs(block), begin, end}, to,
                         cut.kernel_pitch());
  }

  /// The transformed kernels of a block of columns at a plane and a tap, in their place. Without integers nothing.
  void round_kernels(int block, int depth, Wide<T>* kernels, float* scales) const {
    if constexpr (may_be_integers<T>) {
      const int width = cut.blocks.packs(block) * lanes<T>;
      for (int column = 0; column < width; column += lanes<T>) {
        round_to_columns(kernels + column, width, depth, integer_limit(depth), kernels + column, width,
                         scales + column);
      }
    }
  }

  void run_by_tiles(const Exec& exec, const char* label) const {
    const int tasks = concurrency();
    const long block_values = planes * cut.kernel_pitch();
    parallel_tasks(exec, "halograd::winograd_kernels", tasks, [&](int task) {
      const Share share(cut.blocks.count() * cut.depth, task, tasks);
      for (long unit = share.begin, count = 0; unit < share.end; unit += count) {
        const int block = static_cast<int>(unit / cut.depth), tap = static_cast<int>(unit % cut.depth / pass.depth);
        const int begin = static_cast<int>(unit % pass.depth);
        count = std::min<long>(pass.depth - begin, share.end - unit);
        transform_kernels_of(
            block, tap, begin, begin + static_cast<int>(count),
            scratch.kernels + block * block_values + unit % cut.depth * cut.blocks.packs(block) * lanes<T>);
      }
    });
    // (block, plane, tap, column)
    const long block_scales = static_cast<long>(planes) * cut.taps * cut.blocks.width;
    if (cut.integers) {
      parallel_tasks(exec, "halograd::winograd_round", tasks, [&](int task) {
        const Share share(static_cast<long>(cut.blocks.count()) * planes * cut.taps, task, tasks);
        for (long unit = share.begin; unit < share.end; ++unit) {
          const int block = static_cast<int>(unit / cut.taps / planes);
          const long plane = unit / cut.taps % planes, depths = unit % cut.taps * pass.depth;
          round_kernels(block, pass.depth,
                        scratch.kernels + block * block_values + plane * cut.kernel_pitch() +
                            depths * cut.blocks.packs(block) * lanes<T>,
                        scratch.kernel_scales + unit * cut.blocks.width);
        }
      });
    }
    parallel_tasks(exec, label, tasks, [&](int task) {
      const long matrix = static_cast<long>(task) * planes;
      for_blocks(task, tasks, [&](const TileBlock& tiles) {
        transform_inputs(tiles, task, matrix, 0);
        TileBlock after = tiles;
        after.first += tiles.count;
        Prefetch next =
            fetched(in, pass.in_values(), after, cut.blocks.count() * products_in_block(tiles, cut.blocks.packs(0)));
        for (int block = 0; block < cut.blocks.count(); ++block) {
          multiply(tiles, block, pass.depth, false, inputs_at(matrix, 0), scratch.kernels + block * block_values,
                   scratch.kernel_scales + block * block_scales, products_of(task), next);
          store_outputs(tiles, block, products_of(task));
        }
      });
    });
  }

  void run_by_columns(const Exec& exec, const char* label) const {
    const int tasks = concurrency();
    for (long kept = 0; kept < pass.tiles(); kept += cut.tiles) {
      const long tiles = std::min<long>(cut.tiles, pass.tiles() - kept);
      parallel_tasks(exec, "halograd::winograd_inputs", tasks, [&](int task) {
        const Share share(tiles, task, tasks);
        transform_inputs(tiles_of_images(kept + share.begin, share.end - share.begin), task, 0, share.begin);
      });
      parallel_tasks(exec, label, tasks, [&](int task) {
        const Share share(cut.blocks.count() * tiles, task, tasks);
        Wide<T>* const kernels = scratch.kernels + task * planes * cut.kernel_pitch();
        float* const scales = scratch.kernel_scales + static_cast<long>(task) * planes * cut.blocks.width;
        for (long unit = share.begin, count = 0; unit < share.end; unit += count) {
          const int block = static_cast<int>(unit / tiles);
          const long first = unit % tiles;
          count = std::min(tiles - first, share.end - unit);
          const TileBlock block_tiles = tiles_of_images(kept + first, count);
          for (int begin = 0; begin < pass.depth; begin += cut.piece) {
            const int depth = std::min(cut.piece, pass.depth - begin);
            const Inputs inputs = inputs_at(static_cast<long>(begin / cut.piece) * planes, first);
            transform_kernels_of(block, 0, begin, begin + depth, kernels);
            for (int plane = 0; cut.integers && plane < planes; ++plane) {
              round_kernels(block, depth, kernels + plane * cut.kernel_pitch(), scales + plane * cut.blocks.width);
            }
            const auto ahead = [&](const auto* from) {
              const long values = planes * cut.input_pitch();
              return Prefetch(from, values, values, panel_rows(2) * cut.input_columns, values,
                              products_in_block(block_tiles, cut.blocks.packs(block)));
            };
            Prefetch next = cut.integers ? ahead(inputs.integers) : ahead(inputs.values);
            multiply(block_tiles, block, depth, begin > 0, inputs, kernels, scales, products_of(task), next);
          }
          store_outputs(block_tiles, block, products_of(task));
        }
      });
    }
  }
};

template <int r, class T>
void run_kernel(const Exec& exec, const char* label, const WinogradOperands<T>& operands, std::byte* workspace) {
  const TilePass& pass = operands.pass;
  const WinogradCut<T> cut(pass);
  Scratch pieces(workspace);
  const WinogradScratch<T> scratch(pieces, pass, cut);
  std::fill(scratch.zeros, scratch.zeros + winograd_points(r) * whole_packs<T>(pass.depth), T(0));
  std::fill(scratch.bias, scratch.bias + cut.blocks.count() * cut.blocks.width, Wide<T>(0));
  if (operands.bias != nullptr) std::copy(operands.bias, operands.bias + pass.columns, scratch.bias);
  const WinogradProduct<r, T> product{.shape = operands.shape,
                                      .pass = pass,
                                      .cut = cut,
                                      .in = operands.in,
                                      .weights = operands.weights,
                                      .view = operands.view,
                                      .target = operands.target,
                                      .scratch = scratch};
  if (cut.keeps_kernels) {
    product.run_by_tiles(exec, label);
  } else {
    product.run_by_columns(exec, label);
  }
}

template <class T>
void run(const Exec& exec, const char* label, const WinogradOperands<T>& operands, std::byte* workspace) {
  const auto run_size = operands.pass.kernel == 3 ? run_kernel<3, T> : run_kernel<5, T>;
  run_size(exec, label, operands, workspace);
}

}  // namespace

template <class T>
std::size_t winograd_product_workspace(const ConvShape& shape) {
  std::size_t bytes = 0;
  for (const TilePass& pass : {TilePass::forward(shape), TilePass::data(shape)}) {
    Scratch scratch(nullptr);
    WinogradScratch<T>(scratch, pass, WinogradCut<T>(pass));
    bytes = std::max(bytes, scratch.used());
  }
  return adjoint_pays(shape) ? std::max(bytes, adjoint_workspace<T>(shape)) : bytes;
}

template <class T>
std::size_t winograd_workspace(const ConvShape& shape) {
  return std::max(winograd_product_workspace<T>(shape), winograd_weights_workspace<T>(shape));
}

template <class T>
void winograd_forward(const Exec& exec, const ConvShape& shape, const T* x, const Wide<T>* weights, const Wide<T>* bias,
                      bool relu, T* y, std::byte* workspace) {
  run<T>(exec, "halograd::winograd_forward",
         {.shape = shape,
          .pass = TilePass::forward(shape),
          .in = x,
          .weights = weights,
          .view = KernelView::plain,
          .bias = bias,
          .target = {y, nullptr, false, relu}},
         workspace);
}

template <class T>
void winograd_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                            const T* relu_output, T* dx, bool accumulate, std::byte* workspace) {
  if (adjoint_pays(shape))
    return adjoint_backward_data(exec, shape, dy, weights, relu_output, dx, accumulate, workspace);
  run<T>(exec, "halograd::winograd_backward_data",
         {.shape = shape,
          .pass = TilePass::data(shape),
          .in = dy,
          .weights = weights,
          .view = KernelView::turned,
          .bias = nullptr,
          .target = {dx, relu_output, accumulate, false}},
         workspace);
}

#define HALOGRAD_INSTANTIATE(T)                                                                                        \
  template std::size_t winograd_product_workspace<T>(const ConvShape&);                                                \
  template std::size_t winograd_workspace<T>(const ConvShape&);                                                        \
  template void winograd_forward<T>(const Exec&, const ConvShape&, const T*, const Wide<T>*, const Wide<T>*, bool, T*, \
                                    std::byte*);                                                                       \
  template void winograd_backward_data<T>(const Exec&, const ConvShape&, const T*, const Wide<T>*, const T*, T*, bool, \
                                          std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
