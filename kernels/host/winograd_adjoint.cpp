#include "kernels/host/winograd.hpp"
#include "kernels/host/winograd_kernels.hpp"

namespace halograd::host {
namespace {

/// Values 0, 2, ... (odd false) or 1, 3, ... of B p.
template <bool odd, class P>
[[gnu::always_inline]] inline void adjoint_half(const P (&p)[6], P (&to)[3]) {
  using At = SixPointsOf<P>;
  if constexpr (!odd) {
    const P low = p[1] + p[2], high = p[3] + p[4];
    to[0] = p[0];
    to[1] = -At::squares * p[0] - (At::high_square * low + At::low_square * high);
    to[2] = p[0] + (low + high);
  } else {
    const P low = p[1] - p[2], high = p[3] - p[4];
    to[0] = p[5] - (At::high * low + At::low * high);
    to[1] = (At::low * low + At::high * high) - At::squares * p[5];
    to[2] = p[5];
  }
}
template <bool odd, class P>
[[gnu::always_inline]] inline void adjoint_half(const P (&p)[8], P (&to)[4]) {
  using T = std::remove_cvref_t<decltype(p[0][0])>;
  if constexpr (!odd) {
    const P one = p[1] + p[2], two = p[4] + p[5], half = p[6] + p[7];
    to[0] = p[0];
    to[1] = (one - T(5.25) * p[0]) + (T(0.25) * two + 4 * half);
    to[2] = T(5.25) * p[0] - T(4.25) * one - (T(1.25) * two + 5 * half);
    to[3] = (one - p[0]) + (two + half);
  } else {
    const P one = p[1] - p[2], two = p[4] - p[5], half = p[6] - p[7];
    to[0] = (one - p[3]) + (T(0.5) * two + 2 * half);
    to[1] = T(5.25) * p[3] - T(4.25) * one - T(2.5) * (two + half);
    to[2] = (one - T(5.25) * p[3]) + (2 * two + T(0.5) * half);
    to[3] = p[3];
  }
}

/// B, for transform_points.
struct AdjointMap {
  static constexpr int half_values(int r) { return winograd_points(r) / 2; }
  template <bool odd, class P, int size, int half_size>
  [[gnu::always_inline]] static inline void half(const P (&from)[size], P (&to)[half_size]) {
    adjoint_half<odd>(from, to);
  }
};

/// How it is cut: a task takes `images` at a time. `pass` is the forward one.
template <class T>
struct AdjointCut {
  long image_tiles, images;
  long height, width;  ///< of an image with the margin into which its tiles reach
  long gradient_columns;
  PanelBlocks<T> blocks;

  explicit AdjointCut(const TilePass& pass)
      : image_tiles(static_cast<long>(pass.rows()) * pass.row_tiles()),
        height(static_cast<long>(pass.rows()) * winograd_outputs + pass.kernel - 1),
        width(static_cast<long>(pass.row_tiles()) * winograd_outputs + pass.kernel - 1),
        gradient_columns(whole_packs<T>(pass.columns)),
        blocks{pass.depth} {
    constexpr long least_tiles = 16;
    const long tile_bytes = pass.planes() * static_cast<long>(sizeof(Wide<T>)) * (gradient_columns + blocks.width);
    const long wanted = std::max(least_tiles, task_bytes / tile_bytes);
    images = std::min<long>((wanted + image_tiles - 1) / image_tiles, pass.images_of_slice);
  }
  [[nodiscard]] long tiles() const { return images * image_tiles; }
  [[nodiscard]] long kernel_pitch(const TilePass& pass) const { return plane_pitch<T>(pass.columns, blocks.width); }
  [[nodiscard]] long gradient_pitch() const { return plane_pitch<T>(tiles() + panel_rows(1), gradient_columns); }
  [[nodiscard]] long product_pitch() const { return plane_pitch<T>(tiles() + panel_rows(1), blocks.width); }
};

template <class T>
struct AdjointScratch {
  T* zeros;
  Wide<T>* kernels;
  Wide<T>* gradients;
  Wide<T>* products;
  Wide<T>* images;
  AdjointScratch(Scratch& scratch, const TilePass& pass, const AdjointCut<T>& cut)
      : zeros(scratch.take<T>(winograd_outputs * cut.gradient_columns)),
        kernels(scratch.take<Wide<T>>(cut.blocks.count() * pass.planes() * cut.kernel_pitch(pass))),
        gradients(scratch.take<Wide<T>>(concurrency() * pass.planes() * cut.gradient_pitch())),
        products(scratch.take<Wide<T>>(concurrency() * pass.planes() * cut.product_pitch())),
        images(scratch.take<Wide<T>>(concurrency() * cut.height * cut.width * cut.blocks.width)) {}
};

/// Each tile of dy is transformed (A dy A^T), multiplied by the transformed kernels, and spread over the pixels that
/// its outputs came from (B p B^T), where overlapping tiles add up. An image is one task's: sums follow the order of
/// its tiles.
template <int r, class T>
struct WinogradAdjoint {
  static constexpr int planes = winograd_planes(r);
  const ConvShape& shape;
  const TilePass pass;  ///< the forward one
  const AdjointCut<T> cut;
  const T* dy;
  const Wide<T>* weights;
  Target<T> target;
  AdjointScratch<T> scratch;

  [[nodiscard]] Wide<T>* kernels_of(int block) const {
    return scratch.kernels + block * planes * cut.kernel_pitch(pass);
  }

  void transform_gradients(long first, int count, Wide<T>* to) const {
    const PatchSource<T> source{dy, pass.out_height, pass.out_width, pass.columns, pass.columns, 0, 0, scratch.zeros};
    const long pitch = cut.gradient_pitch();
    transform_patches<winograd_outputs>(source, pass, first, count, to, cut.gradient_columns,
                                        [&](const auto& pixels, Wide<T>* at) {
                                          transform_planes<GradientMap, r, false>(pixels, at, pitch);
                                          transform_planes<GradientMap, r, true>(pixels, at, pitch);
                                        });
  }

  /// Adds a tile's part to an image with its margin, (height, width, columns of a block).
  void spread(const Wide<T>* products, int columns, const TileAt& at, Wide<T>* image) const {
    const long corner = (at.i * cut.width + at.j) * winograd_outputs * columns;
    for (int v = 0; v < columns; v += lanes<T>) {
      const auto product = [&](int plane) { return load(products + plane * cut.product_pitch() + v); };
      const auto add = [&](int i, int j, const Pack<T>& value) {
        Wide<T>* const pixel = image + corner + (i * cut.width + j) * columns + v;
        store(load(pixel) + value, pixel);
      };
      transform_points<AdjointMap, r, T>(product, add);
    }
  }

  /// Columns of dx of an image: what is not its margin.
  void store_image(long n, int first_column, int columns, const Wide<T>* image) const {
    for (long h = 0; h < pass.height; ++h) {
      const Wide<T>* from = image + ((h + pass.pad_height) * cut.width + pass.pad_width) * columns;
      long at = (n * pass.height + h) * pass.width * pass.depth + first_column;
      for (int w = 0; w < pass.width; ++w, from += columns, at += pass.depth) {
        for (int v = 0; v < columns; v += lanes<T>) {
          target.store(load(from + v), at + v, pass.depth - first_column - v);
        }
      }
    }
  }

  void transform_kernels_share(int task, int tasks) const {
    const Share share(static_cast<long>(cut.blocks.count()) * pass.columns, task, tasks);
    for (long unit = share.begin, count = 0; unit < share.end; unit += count) {
      const int block = static_cast<int>(unit / pass.columns), begin = static_cast<int>(unit % pass.columns);
      count = std::min<long>(pass.columns - begin, share.end - unit);
      const KernelPart part{0, cut.blocks.begin(block), cut.blocks.packs(block), begin,
                            begin + static_cast<int>(count)};
      transform_kernels<r>(shape, weights, KernelView::transposed, part,
                           kernels_of(block) + begin * cut.blocks.packs(block) * lanes<T>, cut.kernel_pitch(pass));
    }
  }

  void compute_images(int task, long first, long count) const {
    Wide<T>* const gradients = scratch.gradients + task * planes * cut.gradient_pitch();
    Wide<T>* const products = scratch.products + task * planes * cut.product_pitch();
    Wide<T>* const image = scratch.images + task * cut.height * cut.width * cut.blocks.width;
    const int tiles = static_cast<int>(count * cut.image_tiles);
    transform_gradients(first * cut.image_tiles, tiles, gradients);
    Prefetch none;
    for (int block = 0; block < cut.blocks.count(); ++block) {
      const int packs = cut.blocks.packs(block), columns = packs * lanes<T>;
      for (int plane = 0; plane < planes; ++plane) {
        multiply_panel<false>(
            packs, tiles, panel_rows(packs),
            PanelTile<Wide<T>>{pass.columns, gradients + plane * cut.gradient_pitch(), cut.gradient_columns,
                               kernels_of(block) + plane * cut.kernel_pitch(pass), columns,
                               products + plane * cut.product_pitch(), columns, false},
            none, [] {});
      }
      const Wide<T>* product = products;
      for (long n = first; n < first + count; ++n) {
        std::fill_n(image, cut.height * cut.width * columns, Wide<T>(0));
        TileAt at(pass, 0);
        for (long tile = 0; tile < cut.image_tiles; ++tile, product += columns, at.next(pass)) {
          spread(product, columns, at, image);
        }
        store_image(n, cut.blocks.begin(block), columns, image);
      }
    }
  }

  void run(const Exec& exec) const {
    const int tasks = concurrency();
    parallel_tasks(exec, "halograd::winograd_kernels", tasks, [&](int task) { transform_kernels_share(task, tasks); });
    parallel_tasks(exec, "halograd::winograd_backward_data", tasks, [&](int task) {
      const Share images(pass.images_of_slice, task, tasks);
      for (long first = images.begin; first < images.end; first += cut.images) {
        compute_images(task, first, std::min(cut.images, images.end - first));
      }
    });
  }
};

template <int r, class T>
void run(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights, const Target<T>& target,
         std::byte* workspace) {
  const TilePass pass = TilePass::forward(shape);
  const AdjointCut<T> cut(pass);
  Scratch pieces(workspace);
  const AdjointScratch<T> scratch(pieces, pass, cut);
  std::fill_n(scratch.zeros, winograd_outputs * cut.gradient_columns, T(0));
  WinogradAdjoint<r, T>{shape, pass, cut, dy, weights, target, scratch}.run(exec);
}

}  // namespace

bool adjoint_pays(const ConvShape& shape) {
  constexpr double least_gain = 1.5;  // what spreading the tiles costs more than storing them
  const TilePass forward = TilePass::forward(shape);
  const long kernel_values = static_cast<long>(forward.planes()) * shape.channels * shape.filters;
  return !forward.in_volumes && kernel_values <= most_kernel_bytes / static_cast<long>(sizeof(float)) &&
         least_gain * static_cast<double>(forward.tiles()) <= static_cast<double>(TilePass::data(shape).tiles());
}

template <class T>
std::size_t adjoint_workspace(const ConvShape& shape) {
  const TilePass pass = TilePass::forward(shape);
  Scratch scratch(nullptr);
  AdjointScratch<T>(scratch, pass, AdjointCut<T>(pass));
  return scratch.used();
}

template <class T>
void adjoint_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                           const T* relu_output, T* dx, bool accumulate, std::byte* workspace) {
  const Target<T> target{dx, relu_output, accumulate, false};
  if (shape.kernel[1] == 3) {
    run<3>(exec, shape, dy, weights, target, workspace);
  } else {
    run<5>(exec, shape, dy, weights, target, workspace);
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                                                       \
  template std::size_t adjoint_workspace<T>(const ConvShape&);                                                        \
  template void adjoint_backward_data<T>(const Exec&, const ConvShape&, const T*, const Wide<T>*, const T*, T*, bool, \
                                         std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
