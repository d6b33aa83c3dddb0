// Windows against plain loops over every output and tap.

#include "kernels/window_geometry.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace halograd::window_geometry_test {
namespace {

/// Calls visit(axis, description) for many axes whose windows fit or not.
template <class Visit>
void for_each_axis(const std::vector<int>& dilations, const Visit& visit) {
  for (const int extent : {1, 2, 5, 8}) {
    for (const int kernel : {1, 2, 3, 4}) {
      for (const int stride : {1, 2, 3, 5}) {
        for (const int padding : {0, 1, 3}) {
          for (const int dilation : dilations) {
            visit(WindowAxis(extent, kernel, stride, padding, dilation),
                  "extent " + std::to_string(extent) + " kernel " + std::to_string(kernel) + " stride " +
                      std::to_string(stride) + " padding " + std::to_string(padding) + " dilation " +
                      std::to_string(dilation));
          }
        }
      }
    }
  }
}

/// How many windows lie in the padded image, counted one by one.
int counted_outputs(const WindowAxis& axis) {
  int count = 0;
  for (int first = -axis.padding; first + (axis.kernel - 1) * axis.dilation < axis.extent + axis.padding;
       first += axis.stride) {
    ++count;
  }
  return count;
}

TEST(WindowAxis, HasTheOutputsThatFit) {
  for_each_axis({1, 2, 3}, [](const WindowAxis& axis, const std::string& name) {
    EXPECT_EQ(axis.outputs, counted_outputs(axis)) << name;
  });
}

TEST(WindowAxis, MapsOutputsToInputsAndBack) {
  for_each_axis({1, 2, 3}, [](const WindowAxis& axis, const std::string& name) {
    for (int tap = 0; tap < axis.kernel; ++tap) {
      std::vector<int> seen_by(static_cast<std::size_t>(axis.extent), -1);
      for (int output = 0; output < axis.outputs; ++output) {
        int at = -axis.padding;  // by steps
        for (int i = 0; i < output; ++i) at += axis.stride;
        for (int i = 0; i < tap; ++i) at += axis.dilation;
        const bool inside = at >= 0 && at < axis.extent;
        ASSERT_EQ(axis.input(output, tap), inside ? at : -1) << name << " output " << output << " tap " << tap;
        if (inside) seen_by[static_cast<std::size_t>(at)] = output;
      }
      for (int input = 0; input < axis.extent; ++input) {
        ASSERT_EQ(axis.output(input, tap), seen_by[static_cast<std::size_t>(input)])
            << name << " input " << input << " tap " << tap;
      }
    }
  });
}

TEST(WindowAxis, KnowsWhichTapsAndOutputsMeet) {
  for_each_axis({1}, [](const WindowAxis& axis, const std::string& name) {
    for (int output = 0; output < axis.outputs; ++output) {
      const WindowAxis::Reach reach = axis.reach(output);
      for (int tap = 0; tap < axis.kernel; ++tap) {
        const int input = axis.input(output, tap);
        ASSERT_EQ(tap >= reach.begin && tap < reach.end, input >= 0) << name << " output " << output << " tap " << tap;
        if (input < 0) continue;
        ASSERT_EQ(reach.start + tap, input) << name;
        ASSERT_EQ(axis.tap(input, output), tap) << name;
      }
    }
    for (int input = 0; input < axis.extent; ++input) {
      const IndexRange range = axis.outputs_over(input);
      for (int output = 0; output < axis.outputs; ++output) {
        bool holds = false;
        for (int tap = 0; tap < axis.kernel; ++tap) holds = holds || axis.input(output, tap) == input;
        ASSERT_EQ(output >= range.begin && output < range.end, holds) << name << " input " << input;
      }
    }
  });
}

TEST(WindowAxis, TakesPaddingAsLargeAsAnIntHolds) {
  EXPECT_EQ(WindowAxis(1, 1, 1 << 30, 2000000000, 1).outputs, 4);
  EXPECT_EQ(WindowAxis(10, 2000000000, 1, 0, 3).outputs, 0);
}

TEST(IndicesInside, AgreesWithAPlainLoop) {
  for (int start = -7; start <= 7; ++start) {
    for (const int step : {1, 2, 3}) {
      for (const int extent : {1, 4, 6}) {
        for (const int count : {0, 1, 5}) {
          const IndexRange range = indices_inside(start, step, extent, count);
          for (int i = 0; i < count; ++i) {
            const int at = start + i * step;
            ASSERT_EQ(i >= range.begin && i < range.end, at >= 0 && at < extent) << start << " " << step << " " << i;
          }
          ASSERT_LE(range.begin, range.end);
        }
      }
    }
  }
}

/// The extent that a transposed convolution writes: the least one with as many outputs.
TEST(WindowGeometry, ExtentForIsTheLeastWithSoManyOutputs) {
  for_each_axis({1, 2}, [](const WindowAxis& axis, const std::string& name) {
    WindowGeometry geometry;
    geometry.kernel[1] = axis.kernel;
    geometry.stride[1] = axis.stride;
    geometry.padding[1] = axis.padding;
    geometry.dilation[1] = axis.dilation;
    for (const int outputs : {1, 2, 7}) {
      const long extent = geometry.extent_for(1, outputs);
      if (extent < 1) continue;
      geometry.extent[1] = static_cast<int>(extent);
      EXPECT_EQ(geometry.out_extent()[1], outputs) << name;
      --geometry.extent[1];
      EXPECT_EQ(geometry.out_extent()[1], outputs - 1) << name;
    }
  });
}

TEST(WindowGeometry, CountsPixelsAndTaps) {
  WindowGeometry geometry;
  geometry.batch = 3;
  geometry.extent = {4, 5, 6};
  geometry.kernel = {1, 3, 2};
  geometry.stride = {2, 1, 2};
  EXPECT_EQ(geometry.out_extent(), (WindowGeometry::Spatial{2, 3, 3}));
  EXPECT_EQ(geometry.in_pixels(), 3 * 4 * 5 * 6);
  EXPECT_EQ(geometry.out_pixels(), 3 * 2 * 3 * 3);
  EXPECT_EQ(geometry.taps(), 6);
  EXPECT_TRUE(geometry.fits());
  geometry.kernel[1] = 6;
  EXPECT_FALSE(geometry.fits());
}

}  // namespace
}  // namespace halograd::window_geometry_test
