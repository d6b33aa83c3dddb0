#pragma once

#include "kernels/device/conv_products.hpp"
#include "kernels/device/copied_tile.hpp"

/// The three passes of a convolution for copied_tile.hpp: channels of x and y come in whole chunks.
namespace halograd::device {

inline bool has_chunks(const Bfloat16* values) {
  return reinterpret_cast<std::uintptr_t>(values) % (chunk * sizeof(Bfloat16)) == 0;
}
/// Of a kernel along an axis.
constexpr unsigned most_taps = 1024;

/// Whether all that is read and written lies in whole chunks, but for its addresses.
inline bool has_chunks(const ConvShape& shape) {
  for (int i = 0; i < 3; ++i) {
    if (shape.axis(i).kernel > static_cast<int>(most_taps)) return false;
  }
  return shape.channels / shape.groups % chunk == 0 && shape.filters / shape.groups % chunk == 0;
}

/// Chunks along rows of a tensor: depth = (tap, channel of the group), each tap from the row that row_of(tap) says, or
/// -1.
template <class RowOf>
class GatheredChunks {
 public:
  KOKKOS_FUNCTION GatheredChunks(const RowOf& row_of, const Gathered<Bfloat16>& tensor, int group, int depth)
      : row_of_(row_of),
        group_(tensor.values + static_cast<long>(group) * tensor.in_group),
        at_(nullptr),
        channels_(tensor.channels),
        in_group_(tensor.in_group),
        taps_(tensor.taps),
        tap_(depth / in_group_),
        channel_(depth % in_group_) {
    find();
  }
  [[nodiscard]] KOKKOS_FUNCTION const Bfloat16* at() const { return at_; }
  KOKKOS_FUNCTION void advance(int depth) {
    channel_ += depth;
    if (channel_ < in_group_) {
      if (at_ != nullptr) at_ += depth;
      return;
    }
    for (; channel_ >= in_group_; channel_ -= in_group_) ++tap_;
    find();
  }

 private:
  KOKKOS_FUNCTION void find() {
    const long row = tap_ < taps_ ? row_of_(tap_) : -1;
    at_ = row < 0 ? nullptr : group_ + row * channels_ + channel_;
  }
  RowOf row_of_;
  const Bfloat16* group_;
  const Bfloat16* at_;
  int channels_, in_group_, taps_, tap_, channel_;
};

/// Values from one of an operand's pieces to the next, where it runs across; at most so many.
constexpr int piece_step = 32, most_pieces = 4;

/// Chunks down the columns of a matrix (rows, pitch), from `row` up to `end`, and of its first `width` columns.
class ColumnChunks {
 public:
  KOKKOS_FUNCTION ColumnChunks(const Bfloat16* matrix, long pitch, long row, long end, long column, long width)
      : at_(matrix + row * pitch + column), pitch_(pitch), left_(end - row), width_(static_cast<int>(width - column)) {}
  [[nodiscard]] KOKKOS_FUNCTION const Bfloat16* at(int piece) const {
    return left_ > 0 && piece * piece_step < width_ ? at_ + piece * piece_step : nullptr;
  }
  KOKKOS_FUNCTION void advance(int rows) {
    at_ += rows * pitch_;
    left_ -= rows;
  }

 private:
  const Bfloat16* at_;
  long pitch_, left_;
  int width_;
};

/// What a row of Product's A reads at a tap.
template <class Product>
struct PixelOf {
  const Product* product;
  typename Product::Place place;
  KOKKOS_FUNCTION long operator()(int tap) const { return product->pixel(place, tap); }
};

/// `weights`: rounded.
struct ForwardChunks : ForwardProduct<Bfloat16> {
  const Bfloat16* rounded;
  ForwardChunks(const ForwardProduct<Bfloat16>& product, const Bfloat16* rounded_weights)
      : ForwardProduct<Bfloat16>(product), rounded(rounded_weights) {}
  [[nodiscard]] KOKKOS_FUNCTION const Bfloat16* any() const { return rounded; }

  struct AChunks : GatheredChunks<PixelOf<ForwardProduct>> {
    KOKKOS_FUNCTION AChunks(const ForwardChunks& p, int block, long row, int depth)
        : GatheredChunks({&p, p.place(block, row)}, p.x, block, depth) {}
  };
  struct BChunks : ColumnChunks {
    KOKKOS_FUNCTION BChunks(const ForwardChunks& p, int block, long column, int depth)
        : ColumnChunks(p.rounded + static_cast<long>(block) * p.g.out_group, p.g.filters, depth, p.depth(), column,
                       p.columns()) {}
  };
};

struct DataChunks : DataProduct<Bfloat16> {
  Gathered<Bfloat16> rounded;
  DataChunks(const DataProduct<Bfloat16>& product, const Bfloat16* rounded_weights)
      : DataProduct<Bfloat16>(product), rounded(rounded_weights, g.filters, g.out_group, phase.taps()) {}
  [[nodiscard]] KOKKOS_FUNCTION const Bfloat16* any() const { return rounded.values; }

  struct AChunks : GatheredChunks<PixelOf<DataProduct>> {
    KOKKOS_FUNCTION AChunks(const DataChunks& p, int block, long row, int depth)
        : GatheredChunks({&p, p.place(block, row)}, p.dy, block, depth) {}
  };
  struct WeightRow {
    const DataChunks* product;
    long channel;
    KOKKOS_FUNCTION long operator()(int tap) const {
      return channel < product->columns() ? product->weights_row(tap, channel) : -1;
    }
  };
  struct BChunks : GatheredChunks<WeightRow> {
    KOKKOS_FUNCTION BChunks(const DataChunks& p, int block, long column, int depth)
        : GatheredChunks({&p, column}, p.rounded, block, depth) {}
  };
};

struct WeightChunks : WeightProduct<Bfloat16> {
  explicit WeightChunks(const WeightProduct<Bfloat16>& product) : WeightProduct<Bfloat16>(product) {}
  [[nodiscard]] KOKKOS_FUNCTION const Bfloat16* any() const { return x; }

  /// Channels at taps of one output pixel after the other.
  class AChunks {
   public:
    KOKKOS_FUNCTION AChunks(const WeightChunks& p, int block, long row, int depth)
        : g_(p.g),
          group_(p.x + static_cast<long>(p.group_of(block)) * g_.in_group),
          pixel_(p.first_of(block) + depth),
          end_(p.end_of(block)) {
      HALOGRAD_UNROLL
      for (int piece = 0; piece < most_pieces; ++piece) {
        const long here = row + piece * piece_step;
        const Place place = p.place(block, here);
        int k[3];
        g_.split_tap(place.tap, k);
        tap_[piece] = here < p.rows() ? static_cast<int>((k[0] * most_taps + k[1]) * most_taps + k[2]) : -1;
        channel_[piece] = place.channel;
      }
      g_.split_output(pixel_, output_);
    }
    [[nodiscard]] KOKKOS_FUNCTION const Bfloat16* at(int piece) const {
      const int tap = tap_[piece];
      if (pixel_ >= end_ || tap < 0) return nullptr;
      const auto packed = static_cast<unsigned>(tap);
      const int k[3] = {static_cast<int>(packed / (most_taps * most_taps)),
                        static_cast<int>(packed / most_taps % most_taps), static_cast<int>(packed % most_taps)};
      const long from = g_.input_pixel(output_, k);
      return from < 0 ? nullptr : group_ + from * g_.channels + channel_[piece];
    }
    KOKKOS_FUNCTION void advance(int pixels) {
      pixel_ += pixels;
      g_.split_output(pixel_, output_);
    }

   private:
    const Geometry& g_;
    const Bfloat16* group_;
    long pixel_, end_;
    int output_[4] = {}, tap_[most_pieces], channel_[most_pieces];
  };
  struct BChunks : ColumnChunks {
    KOKKOS_FUNCTION BChunks(const WeightChunks& p, int block, long column, int depth)
        : ColumnChunks(p.dy + static_cast<long>(p.group_of(block)) * p.g.out_group, p.g.filters,
                       p.first_of(block) + depth, p.end_of(block), column, p.columns()) {}
  };
};

}  // namespace halograd::device
