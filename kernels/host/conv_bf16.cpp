#include "kernels/host/conv_bf16.hpp"

#include "kernels/host/bf16_blocks.hpp"
#include "kernels/host/blocking.hpp"
#include "kernels/host/target.hpp"

namespace halograd::host::bf16 {
namespace {

constexpr int two_blocks = 2 * tile_width;
/// Bytes of weights that stay in the second-level cache beside a block.
constexpr long cached_weight_bytes = 256L << 10U;
/// Bytes of weights from which on tasks share out the columns of a product, so that each reads only its own.
constexpr long shared_weight_bytes = 1L << 20U;

/// A step of depth: up to 32 values that taps with successive positions read, from `first` on behind the first of them.
struct DepthStep {
  int tap, first, count;
};

/// What lies between the lowest and the highest tap of an output, along each axis: of a TapMap, without making one.
struct Reads {
  ConvShape::Spatial step, lowest, reach;
  bool own_place;  ///< an output reads what lies in the place of its own, and no more
  /// reach is negative on an axis where no tap reaches outputs of that phase.
  Reads(const ConvShape& shape, bool transposed, const ConvShape::Spatial& phase)
      : step(transposed ? ConvShape::Spatial{1, 1, 1} : shape.stride) {
    for (int axis = 0; axis < 3; ++axis) {
      const int stride = shape.stride[axis];
      int low = shape.axis(axis).offset(0), high = shape.axis(axis).offset(shape.kernel[axis] - 1);
      if (transposed) {  // the whole numbers between (phase - high) / stride and (phase - low) / stride
        const int first = phase[axis] - high, last = phase[axis] - low;
        low = first > 0 ? (first + stride - 1) / stride : first / stride;
        high = last / stride;  // no offset(0) is positive
      }
      lowest[axis] = low;
      reach[axis] = high - low;
    }
    constexpr ConvShape::Spatial none{0, 0, 0}, ones{1, 1, 1};
    own_place = shape.stride == ones && lowest == none && reach == none;
  }
  [[nodiscard]] bool nothing() const { return *std::min_element(reach.begin(), reach.end()) < 0; }
};

/// A product over one lattice of outputs.
struct BlockProduct {
  const ConvShape& shape;
  const TapMap& map;
  const Reads& reads;
  Lattice lattice;
  bool transposed;
  int channels;  ///< of a position that is read
  int columns;
  const Bfloat16* in;
  const float* weights;
  Target<Bfloat16> target;
};

/// Whether a tap's channels are steps of depth of their own; fewer are together with those of the next taps.
bool own_steps(int channels) {
  return channels % tile_depth == 0;
}

/// Whether strips can be read where they are: what is read lies as the outputs do.
bool may_be_in_place(const Reads& reads, const Lattice& lattice, int channels) {
  return reads.own_place && own_steps(channels) && lattice.pixels() >= tile_width;
}

OutputBlocks blocks_of(const Reads& reads, const Lattice& lattice, int channels, bool in_place) {
  const auto most_of = [&](int images, int fewest) {
    return channels >= 256 ? images : std::max(fewest, images / (4 * concurrency()));
  };
  if (in_place) {  // each strip as an image
    const int strips = static_cast<int>((lattice.pixels() + tile_width - 1) / tile_width);
    return OutputBlocks(strips, {1, 1, tile_width}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, channels,
                        most_of(strips, most_row_blocks));
  }
  const int most_images = most_of(lattice.batch, 1);
  // Rows that fill their strips need no phases, and taps that share a step must lie side by side.
  const bool by_phases = own_steps(channels) && lattice.count(2) % tile_width != 0;
  return OutputBlocks(lattice.batch, {lattice.count(0), lattice.count(1), lattice.count(2)}, reads.step, reads.reach,
                      by_phases ? reads.step : ConvShape::Spatial{1, 1, 1}, channels, most_images);
}

/// Positions of a block from what one output reads to what the next one does.
long distance(const OutputBlocks& blocks) {
  return blocks.step[2] / blocks.phase_step[2];
}

/// Scratch of a product.
struct BlockScratch {
  std::uint16_t* right;
  float* bias;
  DepthStep* steps;
  long* left_steps;
  std::uint16_t* slabs;  ///< a task's: what a block reads; null where that is read in place
  long slab_values;
  long* begins;  ///< a task's strips
  long* outs;
  long strips;
  BlockScratch(Scratch& scratch, const OutputBlocks& blocks, bool in_place, int taps, int channels, int columns) {
    const long steps_most = taps * whole_steps(channels);
    slab_values = (blocks.positions() + tile_width * distance(blocks)) * channels + tile_depth;
    slab_values = in_place ? 0 : whole_steps(slab_values) * tile_depth;
    strips = blocks.strips(tile_width);
    right = scratch.take<std::uint16_t>(steps_most * tile_depth * whole_widths(columns));
    bias = scratch.take<float>(whole_widths(columns));
    steps = scratch.take<DepthStep>(steps_most);
    left_steps = scratch.take<long>(steps_most);
    slabs = in_place ? nullptr : scratch.take<std::uint16_t>(concurrency() * slab_values);
    begins = scratch.take<long>(concurrency() * strips);
    outs = scratch.take<long>(concurrency() * strips * tile_width);
  }
};

/// The steps of depth, and where in a whole block's slab a step reads for an output at 0.
int list_steps(const BlockProduct& product, const OutputBlocks& blocks, const BlockScratch& scratch) {
  const TapMap& map = product.map;
  const ConvShape::Spatial& lowest = product.reads.lowest;
  const int channels = product.channels;
  int count = 0;
  const auto add = [&](int tap, int first, int end) {
    const ConvShape::Spatial& offset = map.tap(tap).offset;
    scratch.steps[count] = {tap, first, std::min(tile_depth, end - first)};
    scratch.left_steps[count++] =
        blocks.position(offset[0] - lowest[0], offset[1] - lowest[1], offset[2] - lowest[2]) * channels + first;
  };
  if (own_steps(channels)) {
    // Some channels in all taps, then the next: what the taps read of a strip overlaps, and stays in the cache.
    for (int first = 0; first < channels; first += tile_depth) {
      for (int tap = 0; tap < map.taps(); ++tap) add(tap, first, channels);
    }
    return count;
  }
  for (int tap = 0; tap < map.taps();) {
    int end = tap + 1;
    const auto follows = [&] {
      ConvShape::Spatial expected = map.tap(end - 1).offset;
      ++expected[2];
      return map.tap(end).offset == expected;
    };
    while (end < map.taps() && follows()) ++end;
    const int depth = (end - tap) * channels;
    for (int first = 0; first < depth; first += tile_depth) add(tap, first, depth);
    tap = end;
  }
  return count;
}

/// The weights of `column` and 15 more at depth `d` of a step.
const float* weights_row(const BlockProduct& product, const DepthStep& step, int d, long column, float* copy) {
  const int at = step.first + d;
  const Tap& tap = product.map.tap(step.tap + (d < step.count ? at / product.channels : 0));
  const long row = static_cast<long>(tap.kernel_index) * product.channels + at % product.channels;
  return readable_row(product.weights + row * product.columns + column, d < step.count ? product.columns - column : 0,
                      copy);
}

/// The same for a transposed product, whose depth is contiguous: a step of one column.
const float* weights_column(const BlockProduct& product, const DepthStep& step, long column, float* copy) {
  const auto from = [&](int at) {
    const Tap& tap = product.map.tap(step.tap + at / product.channels);
    return product.weights + (static_cast<long>(tap.kernel_index) * product.columns + column) * product.channels +
           at % product.channels;
  };
  if (column < product.columns && step.count == tile_depth &&
      step.first % product.channels + tile_depth <= product.channels) {
    return from(step.first);
  }
  std::fill_n(copy, tile_depth, 0.0F);
  for (int d = 0; d < step.count && column < product.columns;) {
    const int length = std::min(step.count - d, product.channels - (step.first + d) % product.channels);
    std::copy_n(from(step.first + d), length, copy + d);
    d += length;
  }
  return copy;
}

/// The weights as right operand, (block of columns, step), in the order in which they lie in memory.
void pack_weights(const Exec& exec, const BlockProduct& product, int steps, const BlockScratch& scratch) {
  const long blocks = whole_widths(product.columns) / tile_width;
  const auto tile_at = [&](long block, long step) {
    return reinterpret_cast<std::uint32_t*>(scratch.right + (block * steps + step) * tile_values);
  };
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_bf16_pack", tasks, [&](int task) {
    float copies[2][tile_depth];
    if (!product.transposed) {
      constexpr long blocks_at_once = 4;  // of rows that lie far apart
      const long groups = (blocks + blocks_at_once - 1) / blocks_at_once;
      const Share share(groups * steps, task, tasks);
      for (long unit = share.begin; unit < share.end; ++unit) {
        const long first = unit % groups * blocks_at_once, last = std::min(blocks, first + blocks_at_once);
        const DepthStep& step = scratch.steps[unit / groups];
        for (int d = 0; d < tile_depth; d += 2) {
          for (long block = first; block < last; ++block) {
            round_pairs(weights_row(product, step, d, block * tile_width, copies[0]),
                        weights_row(product, step, d + 1, block * tile_width, copies[1]),
                        tile_at(block, unit / groups) + d / 2 * tile_width);
          }
        }
      }
      return;
    }
    // Packed as a left tile and mirrored.
    const Share share(blocks * steps, task, tasks);
    for (long unit = share.begin; unit < share.end; ++unit) {
      const DepthStep& step = scratch.steps[unit % steps];
      std::uint32_t tile[tile_values / 2];
      for (int c = 0; c < tile_width; ++c) {
        const float* const row = weights_column(product, step, unit / steps * tile_width + c, copies[0]);
        for (int d = 0; d < tile_depth; d += tile_width) {
          constexpr int ahead = 2 * tile_depth;
          __builtin_prefetch(row + d + ahead);
          round_row(row + d, reinterpret_cast<std::uint16_t*>(tile + c * tile_width) + d);
        }
      }
      mirror_tile(tile, tile_at(unit / steps, unit % steps));
    }
  });
}

/// What a block reads, with zeros around the image, laid out as for a whole block.
void pack_slab(const BlockProduct& product, const OutputBlocks& blocks, const OutputBlock& block,
               const ConvShape::Spatial& image, std::uint16_t* slab) {
  const ConvShape::Spatial &lowest = product.reads.lowest, &step = blocks.phase_step;
  const ConvShape::Spatial scaled = product.map.scaled(Pixel(product.lattice, 0));
  const int first_plane = scaled[0] + block.plane * blocks.step[0] + lowest[0];
  const int first_row = scaled[1] + block.row * blocks.step[1] + lowest[1];
  const int first_column = scaled[2] + lowest[2];
  const int width = blocks.extent(2, blocks.count[2]);
  const long channels = product.channels;
  const auto zero = [&](long count) {
    std::fill_n(slab, count * channels, std::uint16_t{0});
    slab += count * channels;
  };
  // Positions column, column + step, ...
  const auto pack_row = [&](int n, int plane, int row, int column) {
    if (plane < 0 || plane >= image[0] || row < 0 || row >= image[1]) return zero(width);
    const auto steps_to = [&](int at) { return std::clamp((at - column + step[2] - 1) / step[2], 0, width); };
    const int begin = column < 0 ? steps_to(0) : 0, end = std::max(begin, column < image[2] ? steps_to(image[2]) : 0);
    const long from = ((static_cast<long>(n) * image[0] + plane) * image[1] + row) * image[2] + column;
    zero(begin);
    if (step[2] == 1) {
      const long count = (end - begin) * channels;
      std::memcpy(slab, product.in + (from + begin) * channels, sizeof(Bfloat16) * static_cast<std::size_t>(count));
      slab += count;
    } else {
      for (int i = begin; i < end; ++i) {  // whole steps of depth
        const Bfloat16* const pixel = product.in + (from + static_cast<long>(i) * step[2]) * channels;
        for (long c = 0; c < channels; c += tile_depth, slab += tile_depth) {
          std::memcpy(slab, pixel + c, sizeof(Bfloat16) * tile_depth);
        }
      }
    }
    zero(width - end);
  };
  for (int phase = 0; phase < blocks.phases(0) * blocks.phases(1) * blocks.phases(2); ++phase) {
    const int column = first_column + phase % blocks.phases(2);
    const int row = first_row + phase / blocks.phases(2) % blocks.phases(1);
    const int plane = first_plane + phase / blocks.phases(2) / blocks.phases(1);
    for (int n = block.image; n < block.image + block.images; ++n) {
      for (int d = 0; d < blocks.extent(0, blocks.planes); ++d) {
        for (int h = 0; h < blocks.extent(1, blocks.rows); ++h) {
          pack_row(n, plane + d * step[0], row + h * step[1], column);
        }
      }
    }
    slab += (blocks.images - block.images) * blocks.phase_positions() * channels;
  }
}

/// The outputs of a block in strips.
void list_strips(const BlockProduct& product, const OutputBlocks& blocks, const OutputBlock& block,
                 Strips<tile_width>& strips) {
  const Lattice& lattice = product.lattice;
  blocks.for_each_row(block, [&](long position, int n, int d, int h) {
    const long plane =
        static_cast<long>(n) * lattice.image[0] + lattice.start[0] + static_cast<long>(d) * lattice.step[0];
    const long row = plane * lattice.image[1] + lattice.start[1] + static_cast<long>(h) * lattice.step[1];
    const long out = row * lattice.image[2] + lattice.start[2];
    strips.add_row(position * product.channels, blocks.count[2], out * product.columns,
                   static_cast<long>(lattice.step[2]) * product.columns);
  });
}

/// The same where they are read in place. The last strip begins before the end of the one before it, so that it reads
/// nothing behind the last position.
void list_strips_in_place(const BlockProduct& product, const OutputBlock& block, Strips<tile_width>& strips) {
  for (; strips.count < block.images; ++strips.count) {
    const long at = static_cast<long>(block.image + strips.count) * tile_width;
    const long first = std::min(at, product.lattice.pixels() - tile_width);
    strips.begin[strips.count] = first * product.channels;
    long* const outs = strips.out + static_cast<long>(strips.count) * tile_width;
    for (int i = 0; i < tile_width; ++i) outs[i] = first + i < at ? -1 : (first + i) * product.columns;
  }
}

/// Stores `count` values at `at`; sum(c) is the pack of those from c on.
template <class StorePack, class Sum>
void store_row(const StorePack& store_pack, const Target<Bfloat16>& target, long at, int count, const Sum& sum) {
  int c = 0;
  for (; c + lanes<Bfloat16> <= count; c += lanes<Bfloat16>) store_pack(sum(c), at + c);
  if (c < count) target.store(sum(c), at + c, count - c);
}

/// The sums of some strips and up to 32 columns, to where they belong.
void store_strips(const BlockProduct& product, const float* sums, const float* bias, const long* out, int rows,
                  int column) {
  const int wide = std::min(two_blocks, product.columns - column);
  product.target.store_whole([&](const auto& store_pack) {
    for (int m = 0; m < rows; ++m) {
      if (out[m] < 0) continue;
      store_row(store_pack, product.target, out[m] + column, wide,
                [&](int c) { return load(sums + m * two_blocks + c) + load(bias + column + c); });
    }
  });
}

/// A product of a block: so many strips, and a pair of blocks of columns.
struct Turn {
  int strip, count;
  long pair;
};

/// Where a product is stored in a tensor of the outputs' layout, about; nothing where that is null.
Lines stored_lines(const BlockProduct& product, const Bfloat16* tensor, const Strips<tile_width>& strips,
                   const Turn& turn) {
  if (tensor == nullptr) return {};
  const long out = std::max(0L, strips.out[static_cast<long>(turn.strip) * tile_width]);
  return {tensor + out + turn.pair * two_blocks,
          static_cast<long>(sizeof(Bfloat16)) * product.lattice.step[2] * product.columns,
          static_cast<long>(turn.count) * tile_width, tensor == product.target.out};
}

/// What up to `count` strips from `strip` on read in place.
Lines read_lines(const BlockProduct& product, const Strips<tile_width>& strips, int strip, int count) {
  if (strip >= strips.count) return {};
  constexpr long line = 64, values = line / sizeof(Bfloat16);
  return {product.in + strips.begin[strip], line,
          std::min(count, strips.count - strip) * tile_width * product.channels / values};
}

void block_product(const Exec& exec, const char* label, const Unit& unit, const BlockProduct& product,
                   const float* bias, const ConvShape::Spatial& image, std::byte* workspace) {
  if (product.lattice.pixels() == 0) return;
  Scratch pieces(workspace);
  const bool in_place = !unit.outruns_caches() && may_be_in_place(product.reads, product.lattice, product.channels);
  const OutputBlocks blocks = blocks_of(product.reads, product.lattice, product.channels, in_place);
  const BlockScratch scratch(pieces, blocks, in_place, product.shape.taps(), product.channels, product.columns);
  std::fill_n(scratch.bias, whole_widths(product.columns), 0.0F);
  if (bias != nullptr) std::copy(bias, bias + product.columns, scratch.bias);
  const int steps = list_steps(product, blocks, scratch);
  pack_weights(exec, product, steps, scratch);
  const long column_pairs = (product.columns + two_blocks - 1) / two_blocks;
  const long pitch = static_cast<long>(steps) * tile_values;
  const int tasks = concurrency();
  // Few weights stay in the cache while whole rows of outputs are written; of many, a part goes through the whole
  // block.
  const long weight_bytes = 2 * pitch * product.columns / tile_width;
  const bool whole_rows = weight_bytes <= cached_weight_bytes || !unit.outruns_caches();
  const bool by_columns = column_pairs >= tasks && (blocks.number() < tasks || weight_bytes > shared_weight_bytes);
  parallel_tasks(exec, label, tasks, [&](int task) {
    const Share share = by_columns ? Share(blocks.number(), 0, 1) : Share(blocks.number(), task, tasks);
    const Share pairs = by_columns ? Share(column_pairs, task, tasks) : Share(column_pairs, 0, 1);
    const Session session(unit);
    std::uint16_t* const slab = scratch.slabs + task * scratch.slab_values;
    const auto* const from = in_place ? reinterpret_cast<const std::uint16_t*>(product.in) : slab;
    if (!in_place) {
      // What a strip reads behind the last position is multiplied by zeros, or not stored: it must be a number.
      // The last block may have fewer images than the others, and be this task's first.
      const bool whole = share.begin < share.end && blocks.block(share.begin).images == blocks.images;
      std::fill(slab + (whole ? blocks.positions() * product.channels : 0), slab + scratch.slab_values,
                std::uint16_t{0});
    }
    alignas(64) float sums[most_row_blocks * tile_width * two_blocks];
    for (long index = share.begin; index < share.end; ++index) {
      const OutputBlock block = blocks.block(index);
      Strips<tile_width> strips{distance(blocks) * product.channels, scratch.begins + task * scratch.strips,
                                scratch.outs + task * scratch.strips * tile_width};
      if (in_place) {
        list_strips_in_place(product, block, strips);
      } else {
        pack_slab(product, blocks, block, image, slab);
        list_strips(product, blocks, block, strips);
      }
      const long groups = (strips.count + unit.row_blocks - 1) / unit.row_blocks, width = pairs.end - pairs.begin;
      const auto turn = [&](long i) {
        const long group = whole_rows ? i / width : i % groups, pair = whole_rows ? i % width : i / groups;
        const int strip = static_cast<int>(group) * unit.row_blocks;
        return Turn{strip, std::min(unit.row_blocks, strips.count - strip), pairs.begin + pair};
      };
      for (long i = 0; i < groups * width; ++i) {
        const auto [strip, count, pair] = turn(i);
        const int column = static_cast<int>(pair) * two_blocks;
        const int column_blocks =
            static_cast<int>(whole_widths(std::min(two_blocks, product.columns - column))) / tile_width;
        const std::uint16_t* left[most_row_blocks];
        for (int k = 0; k < count; ++k) left[k] = from + strips.begin[strip + k];
        const Turn next = turn(std::min(i + 1, groups * width - 1));
        const Lines outputs = stored_lines(product, product.target.out, strips, next);
        const Lines masks = stored_lines(product, product.target.relu_output, strips, next);
        const Lines inputs = in_place ? read_lines(product, strips, strip + count, unit.row_blocks) : Lines{};
        session.multiply({left,
                          scratch.left_steps,
                          strips.unit,
                          count,
                          scratch.right + column / tile_width * pitch,
                          pitch,
                          column_blocks,
                          steps,
                          sums,
                          two_blocks,
                          false,
                          {outputs, masks, inputs.piece(pair - pairs.begin, width)}});
        store_strips(product, sums, scratch.bias, strips.out + static_cast<long>(strip) * tile_width,
                     count * tile_width, column);
      }
    }
  });
}

/// Input pixels that no tap reaches.
void store_nothing(const Exec& exec, const Lattice& lattice, int columns, const Target<Bfloat16>& target) {
  if (lattice.pixels() == 0) return;
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_bf16_nothing", tasks, [&](int task) {
    const long length = lattice.count(2), step = static_cast<long>(lattice.step[2]) * columns;
    const Share share(lattice.pixels() / length, task, tasks);
    target.store_whole([&](const auto& store_pack) {
      for (long row = share.begin; row < share.end; ++row) {
        const long at = Pixel(lattice, row * length).position(lattice) * columns;
        for (long i = 0; i < length; ++i) {
          store_row(store_pack, target, at + i * step, columns, [](int) { return Pack<float>{}; });
        }
      }
    });
  });
}

}  // namespace

bool pays(const Unit& unit, const ConvShape& shape, ConvPass pass) {
  if (shape.groups != 1) return false;
  if (!unit.outruns_caches() && winograd_pays(shape, pass)) return false;
  // Bounds from docs/measurements/kernels.md.
  constexpr double least_whole = 0.7, least_depth = 0.4;  // shares of tiles that are no padding
  constexpr long fewest_pixels = 32;                      // for which weights are rounded, and turned over
  const bool cheap_rounding = pass == ConvPass::forward && unit.outruns_caches();
  if (shape.out_pixels() < fewest_pixels && !cheap_rounding) return false;
  const auto whole = [](int values, int width) {
    const int tiles = (values + width - 1) / width;
    return static_cast<double>(values) / (tiles * width);
  };
  if (pass == ConvPass::weights) {
    return whole(shape.channels, tile_width) * whole(shape.filters, tile_width) >= least_whole;
  }
  const int taps = shape.dilation[2] == 1 ? shape.kernel[2] : 1;
  return whole(taps * (pass == ConvPass::forward ? shape.channels : shape.filters), tile_depth) >= least_depth;
}

const Unit* unit_for(const ConvShape& shape, ConvPass pass) {
  const Unit* const unit = fast_unit();
  return unit != nullptr && pays(*unit, shape, pass) ? unit : nullptr;
}

std::size_t conv_workspace(const ConvShape& shape) {
  std::size_t most = 0;
  const auto add = [&](const Reads& reads, const Lattice& lattice, int channels, int columns) {
    if (reads.nothing() || lattice.pixels() == 0) return;
    for (const bool in_place : {false, true}) {
      if (in_place && !may_be_in_place(reads, lattice, channels)) continue;
      Scratch scratch(nullptr);
      BlockScratch(scratch, blocks_of(reads, lattice, channels, in_place), in_place, shape.taps(), channels, columns);
      most = std::max(most, scratch.used());
    }
  };
  add(Reads(shape, false, {}), Lattice{shape.batch, shape.out_extent()}, shape.channels, shape.filters);
  for_each_phase(shape, [&](const ConvShape::Spatial& phase) {
    add(Reads(shape, true, phase), Lattice{shape.batch, shape.extent, phase, shape.stride}, shape.filters,
        shape.channels);
  });
  Scratch scratch(nullptr);
  scratch.take<Tap>(shape.taps());
  return std::max(scratch.used() + most, weights_workspace(shape));
}

void forward(const Exec& exec, const Unit& unit, const ConvShape& shape, const Bfloat16* x, const float* weights,
             const float* bias, bool relu, Bfloat16* y, std::byte* workspace) {
  Scratch pieces(workspace);
  const TapMap map = TapMap::forward(shape, pieces.take<Tap>(shape.taps()));
  const Reads reads(shape, false, {});
  block_product(exec, "halograd::conv_bf16_forward", unit,
                {shape, map, reads, Lattice{shape.batch, shape.out_extent()}, false, shape.channels, shape.filters, x,
                 weights, Target<Bfloat16>{y, nullptr, false, relu}},
                bias, shape.extent, workspace + pieces.used());
}

void backward_data(const Exec& exec, const Unit& unit, const ConvShape& shape, const Bfloat16* dy, const float* weights,
                   const Bfloat16* relu_output, Bfloat16* dx, bool accumulate, std::byte* workspace) {
  Scratch pieces(workspace);
  Tap* const taps = pieces.take<Tap>(shape.taps());
  const Target<Bfloat16> target{dx, relu_output, accumulate, false};
  for_each_phase(shape, [&](const ConvShape::Spatial& phase) {
    const TapMap map = TapMap::transposed(shape, phase, taps);
    const Reads reads(shape, true, phase);
    const Lattice lattice{shape.batch, shape.extent, phase, shape.stride};
    if (map.taps() == 0) return store_nothing(exec, lattice, shape.channels, target);
    block_product(exec, "halograd::conv_bf16_data", unit,
                  {shape, map, reads, lattice, true, shape.filters, shape.channels, dy, weights, target}, nullptr,
                  shape.out_extent(), workspace + pieces.used());
  });
}

}  // namespace halograd::host::bf16
