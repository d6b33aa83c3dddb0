#include <algorithm>

#include "kernels/host/winograd.hpp"
#include "kernels/host/winograd_cut.hpp"

namespace halograd::host {

bool winograd_applies(const ConvShape& shape) {
  const ConvShape::Spatial none{1, 1, 1};
  return shape.groups == 1 && shape.stride == none && shape.dilation == none && shape.kernel[1] == shape.kernel[2] &&
         (shape.kernel[1] == 3 || shape.kernel[1] == 5);
}

bool winograd_pays(const ConvShape& shape, ConvPass pass) {
  constexpr int fewest_channels = 8;  // below, the direct kernels have ways of their own
  if (!winograd_applies(shape) || std::min(shape.channels, shape.filters) < fewest_channels) return false;
  // In multiplications of 16 values: what a transform of a pack costs at a tile (loads and stores included), and how
  // much closer to the peak the direct kernels run.
  constexpr double transform_of_six_points = 100, handicap = 1.3;
  const TilePass tiles = pass == ConvPass::data ? TilePass::data(shape) : TilePass::forward(shape);
  const bool adjoint = pass == ConvPass::data && adjoint_pays(shape);
  const long kernel_values = static_cast<long>(tiles.planes()) * tiles.taps * shape.channels * shape.filters;
  if (tiles.in_volumes && kernel_values > most_kernel_bytes / static_cast<long>(sizeof(float))) return false;
  const auto packs = [](int channels) { return (channels + 15) / 16; };
  const int columns = packs(tiles.columns);
  // The sums of the weight gradient have channels as rows, taken eight at a time.
  const int depth = pass == ConvPass::weights ? (tiles.depth + 7) / 8 * 8 : tiles.depth;
  const double transform = transform_of_six_points * tiles.planes() / winograd_planes(3);
  const double a_tile =
      tiles.planes() * static_cast<double>(tiles.taps) * depth * columns + transform * (packs(depth) + columns);
  const long transformed = adjoint ? TilePass::forward(shape).tiles() : tiles.tiles();
  const double winograd = static_cast<double>(transformed) * a_tile + transform * tiles.taps * depth * columns;
  // Direct kernels pass over the kernel rows that are outside the image for all of a register tile's pixels.
  long row_taps = 0;
  for (int row = 0; row < tiles.out_height; ++row) {
    for (int tap = 0; tap < shape.kernel[1]; ++tap) {
      const int at = row + tap - tiles.pad_height;
      row_taps += at >= 0 && at < tiles.height ? 1 : 0;
    }
  }
  const double direct = static_cast<double>(tiles.tiles()) / (tiles.rows() * tiles.row_tiles()) * tiles.taps *
                        static_cast<double>(row_taps) * tiles.out_width * shape.kernel[2] * tiles.depth * columns;
  return handicap * winograd < direct;
}

}  // namespace halograd::host
