#pragma once

#include "kernels/host/bf16_tiles.hpp"
#include "kernels/host/gather.hpp"

/// How a convolution in bf16 cuts its work: into blocks of outputs with what they read, and those into strips.
namespace halograd::host::bf16 {

/// Outputs of a block, and where it begins.
struct OutputBlock {
  int image, images, plane, planes, row, rows;
};

/// The outputs of all images in blocks: some images, some planes of one, or some rows of one plane, always whole rows,
/// such that what a block reads, in all its taps, stays in the second-level cache. It lies there by (phase, image,
/// plane, row, column): a phase holds every phase_step-th position.
struct OutputBlocks {
  int batch;
  ConvShape::Spatial count;              ///< outputs of an image
  ConvShape::Spatial step;               ///< positions that are read for one output and for the next, apart
  ConvShape::Spatial reach;              ///< from the first to the last position that an output reads
  ConvShape::Spatial phase_step;         ///< step: what one output and the next one read is side by side; or 1
  int images = 1, planes = 1, rows = 1;  ///< of a block, at most

  /// `channels` of a position; at most `most_images` and about `most_outputs` in a block.
  OutputBlocks(int images_of_all, const ConvShape::Spatial& outputs, const ConvShape::Spatial& apart,
               const ConvShape::Spatial& reached, const ConvShape::Spatial& phases_apart, int channels, int most_images,
               long most_outputs = 2048)
      : batch(images_of_all), count(outputs), step(apart), reach(reached), phase_step(phases_apart) {
    constexpr long most_values = 256L * 1024;
    const auto fit = [&] {
      return positions() * channels <= most_values &&
             static_cast<long>(images) * planes * rows * count[2] <= most_outputs;
    };
    const auto grow = [&](int& size, int most) {
      for (; size < most; ++size) {
        ++size;
        const bool fits = fit();
        --size;
        if (!fits) return false;
      }
      return true;
    };
    if (grow(rows, count[1]) && grow(planes, count[0])) grow(images, std::min(batch, most_images));
  }

  /// Along an axis, those that taps read.
  [[nodiscard]] int phases(int axis) const { return std::min(phase_step[axis], reach[axis] + 1); }
  /// Positions of a phase along an axis, for so many outputs.
  [[nodiscard]] int extent(int axis, int outputs) const {
    return ((outputs - 1) * step[axis] + reach[axis]) / phase_step[axis] + 1;
  }
  [[nodiscard]] long phase_positions() const {
    return static_cast<long>(extent(0, planes)) * extent(1, rows) * extent(2, count[2]);
  }
  /// That a whole block reads.
  [[nodiscard]] long positions() const {
    return static_cast<long>(images) * phases(0) * phases(1) * phases(2) * phase_positions();
  }
  [[nodiscard]] long number() const {
    return static_cast<long>(pieces(batch, images)) * pieces(count[0], planes) * pieces(count[1], rows);
  }
  [[nodiscard]] OutputBlock block(long index) const {
    const int row = static_cast<int>(index % pieces(count[1], rows)) * rows;
    index /= pieces(count[1], rows);
    const int plane = static_cast<int>(index % pieces(count[0], planes)) * planes;
    const int image = static_cast<int>(index / pieces(count[0], planes)) * images;
    return {image, std::min(images, batch - image), plane, std::min(planes, count[0] - plane),
            row,   std::min(rows, count[1] - row)};
  }
  /// Where this place of a block's first image is, counted from the first one that the block reads.
  [[nodiscard]] long position(int plane, int row, int column) const {
    const auto& by = phase_step;
    const int phase = (plane % by[0] * phases(1) + row % by[1]) * phases(2) + column % by[2];
    return phase * images * phase_positions() +
           (static_cast<long>(plane / by[0]) * extent(1, rows) + row / by[1]) * extent(2, count[2]) + column / by[2];
  }
  /// Calls visit(position, image, plane, row) for each row of a block's outputs: where its first output reads first.
  template <class Visit>
  void for_each_row(const OutputBlock& block, const Visit& visit) const {
    for (int n = 0; n < block.images; ++n) {
      for (int d = 0; d < block.planes; ++d) {
        for (int h = 0; h < block.rows; ++h) {
          visit(n * phase_positions() + position(d * step[0], h * step[1], 0), block.image + n, block.plane + d,
                block.row + h);
        }
      }
    }
  }
  /// Strips of a whole block, at most.
  [[nodiscard]] long strips(int width) const {
    return static_cast<long>(images) * planes * rows * pieces(count[2], width);
  }

 private:
  static int pieces(int all, int most) { return (all + most - 1) / most; }
};

/// Stretches of `width` positions, `unit` values apart, that cover rows of outputs: one goes on where a row ends and
/// the next begins soon.
template <int width>
struct Strips {
  long unit;
  long* begin;  ///< (count): the first position
  long* out;    ///< (count, width): the output there, or -1
  int count = 0;

  /// A row of outputs out, out + out_step, ... whose first one is at `at`: later than the rows before it.
  void add_row(long at, int length, long first_out, long out_step) {
    int done = 0;
    if (count > 0 && (at - begin[count - 1]) % unit == 0) {
      for (long i = (at - begin[count - 1]) / unit; i < width && done < length; ++i, ++done) {
        out[(count - 1) * width + i] = first_out + done * out_step;
      }
    }
    while (done < length) {
      begin[count] = at + done * unit;
      long* const outs = out + static_cast<long>(count++) * width;
      for (int i = 0; i < width; ++i) outs[i] = done < length ? first_out + out_step * done++ : -1;
    }
  }
};

}  // namespace halograd::host::bf16
