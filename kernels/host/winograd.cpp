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
  const auto product = [&](int plane) {
    const Pack<T> value = load(products + plane * pitch);
    return plane == winograd_sum_plane(r) ? value + load(bias) : value;
  };
  const long pixel = pass.columns, row = pass.out_width * pixel;
  const long offset =
      ((static_cast<long>(at.n) * pass.out_height + at.i * m) * pass.out_width + at.j * m) * pixel + column;
  const int valid_rows = pass.out_height - at.i * m, valid_columns = pass.out_width - at.j * m;
  const int count = pass.columns - column;
  const Target<T> target = to.from(offset);
  if (valid_rows >= m && valid_columns >= m && count >= lanes<T>) {
    target.store_whole([&](const auto& store_pack) {
      transform_points<OutputMap, r, T>(
          product, [&](int i, int j, const Pack<T>& value) { store_pack(value, i * row + j * pixel); });
    });
    return;
  }
  Pack<T> tile[m][m];
  transform_points<OutputMap, r, T>(product, [&](int i, int j, const Pack<T>& value) { tile[i][j] = value; });
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

  /// Into (piece of the depth, plane, row, column).
  void transform_inputs(const TileBlock& block, Wide<T>* to) const {
    const long pitch = cut.input_pitch();
    for (int begin = 0; begin < pass.depth; begin += cut.piece, to += planes * pitch) {
      const PatchSource<T> source{
          in + begin, pass.height,      pass.width,      std::min(cut.piece, pass.depth - begin),
          pass.depth, -pass.pad_height, -pass.pad_width, scratch.zeros};
      block.for_read(
          pass, 0, block.rows_read(pass),
          [&](long tile, int tiles, long row) {
            transform_patches<winograd_points(r)>(source, pass, tile, tiles, to + row * cut.input_columns,
                                                  cut.input_columns, [&](const auto& pixels, Wide<T>* at) {
                                                    transform_planes<InputMap, r, false>(pixels, at, pitch);
                                                    transform_planes<InputMap, r, true>(pixels, at, pitch);
                                                  });
          },
          [&](int tiles, long row) {
            for (int plane = 0; plane < planes; ++plane) {
              std::fill_n(to + plane * pitch + row * cut.input_columns, tiles * cut.input_columns, Wide<T>(0));
            }
          });
    }
  }

  /// The products of tiles in a block of columns, over `depth` channels, added to what there is or not. `next_inputs`
  /// is fetched in the meantime, as is what the first block's outputs overwrite.
  void multiply(const TileBlock& tiles, int block, int depth, bool accumulate, const Wide<T>* inputs,
                const Wide<T>* kernels, Wide<T>* products, Prefetch& next_inputs) const {
    const int packs = cut.blocks.packs(block);
    const int width = packs * lanes<T>;
    const long input_pitch = cut.input_pitch(), kernel_pitch = cut.kernel_pitch(), product_pitch = cut.product_pitch();
    Prefetch outputs, masks;
    if (cut.keeps_kernels && block == 0) {
      outputs = fetched(target.out, pass.out_values(), tiles, products_in_block(tiles, packs));
      masks = fetched(target.relu_output, pass.out_values(), tiles, products_in_block(tiles, packs));
    }
    for (int plane = 0; plane < planes; ++plane) {
      for (int tap = 0; tap < pass.taps; ++tap) {
        multiply_panel<false>(
            packs, static_cast<int>(tiles.rows()), panel_rows(packs),
            PanelTile<Wide<T>>{
                depth, inputs + plane * input_pitch + static_cast<long>(tap) * tiles.count * cut.input_columns,
                cut.input_columns, kernels + plane * kernel_pitch + static_cast<long>(tap) * depth * width, width,
                products + plane * product_pitch, width, accumulate || tap > 0},
            next_inputs, [&] {
              outputs.write();
              masks.read();
            });
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
    parallel_tasks(exec, label, tasks, [&](int task) {
      Wide<T>* inputs = scratch.inputs + task * planes * cut.input_pitch();
      for_blocks(task, tasks, [&](const TileBlock& tiles) {
        transform_inputs(tiles, inputs);
        TileBlock after = tiles;
        after.first += tiles.count;
        Prefetch next =
            fetched(in, pass.in_values(), after, cut.blocks.count() * products_in_block(tiles, cut.blocks.packs(0)));
        for (int block = 0; block < cut.blocks.count(); ++block) {
          multiply(tiles, block, pass.depth, false, inputs, scratch.kernels + block * block_values, products_of(task),
                   next);
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
        transform_inputs(tiles_of_images(kept + share.begin, share.end - share.begin),
                         scratch.inputs + share.begin * cut.input_columns);
      });
      parallel_tasks(exec, label, tasks, [&](int task) {
        const Share share(cut.blocks.count() * tiles, task, tasks);
        Wide<T>* kernels = scratch.kernels + task * planes * cut.kernel_pitch();
        for (long unit = share.begin, count = 0; unit < share.end; unit += count) {
          const int block = static_cast<int>(unit / tiles);
          const long first = unit % tiles;
          count = std::min(tiles - first, share.end - unit);
          const TileBlock block_tiles = tiles_of_images(kept + first, count);
          const Wide<T>* inputs = scratch.inputs + first * cut.input_columns;
          for (int begin = 0; begin < pass.depth; begin += cut.piece, inputs += planes * cut.input_pitch()) {
            const int end = std::min(begin + cut.piece, pass.depth);
            transform_kernels_of(block, 0, begin, end, kernels);
            const long values = planes * cut.input_pitch();
            Prefetch next(inputs, values, values, panel_rows(2) * cut.input_columns, values,
                          products_in_block(block_tiles, cut.blocks.packs(block)));
            multiply(block_tiles, block, end - begin, begin > 0, inputs, kernels, products_of(task), next);
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
