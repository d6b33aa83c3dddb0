// The three passes of a convolution at the layer shapes of the reference networks, and KokkosBlas::gemm on matrices of
// the same size for scale.   conv_benchmark --benchmark_filter=forward

#include <benchmark/benchmark.h>
#ifdef HALOGRAD_KOKKOS_KERNELS
#include <KokkosBlas3_gemm.hpp>
#endif

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/host/winograd.hpp"

namespace halograd {
namespace {

struct LayerShape {
  const char* name;
  int batch, size, channels, filters, kernel, stride, padding;
  int groups = 1;
  bool volume = false;  ///< three spatial dimensions instead of two
};

const std::vector<LayerShape> layers{{"lenet5_conv1", 32, 28, 1, 20, 5, 1, 0},
                                     {"lenet5_conv2", 32, 12, 20, 50, 5, 1, 0},
                                     {"lenet5_dense1", 32, 1, 800, 500, 1, 1, 0},
                                     {"vgg_conv1a", 32, 32, 3, 64, 3, 1, 1},
                                     {"vgg_conv1b", 32, 32, 64, 64, 3, 1, 1},
                                     {"vgg_conv2b", 32, 16, 128, 128, 3, 1, 1},
                                     {"vgg_conv3b", 32, 8, 256, 256, 3, 1, 1},
                                     {"resnet20_stage1", 32, 32, 16, 16, 3, 1, 1},
                                     {"resnet20_stage2", 32, 16, 32, 32, 3, 1, 1},
                                     {"resnet20_stage3", 32, 8, 64, 64, 3, 1, 1},
                                     {"resnet18_down", 16, 16, 128, 256, 3, 2, 1},
                                     {"resnet18_stage4", 16, 4, 512, 512, 3, 1, 1},
                                     {"resnet50_stem", 4, 224, 3, 64, 7, 2, 3},
                                     {"resnet50_expand", 8, 7, 512, 2048, 1, 1, 0},
                                     {"resnet50_reduce", 8, 7, 2048, 512, 1, 1, 0},
                                     {"resnet50_middle", 8, 14, 1024, 256, 1, 1, 0},
                                     {"resnet50_early", 8, 56, 64, 256, 1, 1, 0},
                                     {"resnet18_shortcut", 16, 16, 128, 256, 1, 2, 0},
                                     {"vgg_dense1", 64, 1, 4096, 256, 1, 1, 0},
                                     {"depthwise_stride1", 16, 28, 144, 144, 3, 1, 1, 144},
                                     {"depthwise_stride2", 16, 28, 144, 144, 3, 2, 1, 144},
                                     {"grouped_8", 16, 28, 64, 64, 3, 1, 1, 8},
                                     {"ffn3d", 2, 17, 32, 32, 3, 1, 1, 1, true},
                                     // Odd numbers of channels, each beside the next multiple of 16.
                                     {"channels_17", 32, 16, 17, 17, 3, 1, 1},
                                     {"channels_32", 32, 16, 32, 32, 3, 1, 1},
                                     {"channels_33", 32, 16, 33, 33, 3, 1, 1},
                                     {"channels_48", 32, 16, 48, 48, 3, 1, 1},
                                     {"channels_100", 32, 16, 100, 100, 3, 1, 1},
                                     {"channels_112", 32, 16, 112, 112, 3, 1, 1}};

ConvShape conv_shape(const LayerShape& layer) {
  ConvShape shape;
  shape.batch = layer.batch;
  shape.channels = layer.channels;
  shape.filters = layer.filters;
  shape.groups = layer.groups;
  shape.extent = {layer.volume ? layer.size : 1, layer.size, layer.size};
  shape.kernel = {layer.volume ? layer.kernel : 1, layer.kernel, layer.kernel};
  shape.stride = {layer.volume ? layer.stride : 1, layer.stride, layer.stride};
  shape.padding = {layer.volume ? layer.padding : 0, layer.padding, layer.padding};
  return shape;
}

using HostBuffer = Kokkos::View<std::byte*, Kokkos::HostSpace>;

enum class Pass { forward, data, weights };

void count_flops(benchmark::State& state, const ConvShape& shape) {
  const double flops = 2.0 * static_cast<double>(shape.out_pixels()) * static_cast<double>(shape.weights());
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void convolution(benchmark::State& state, const LayerShape& layer, Pass pass) {
  const ConvShape shape = conv_shape(layer);
  const ExecutionSpace exec;
  const Buffer<float> x("x", static_cast<std::size_t>(shape.in_pixels() * shape.channels));
  const Buffer<float> y("y", static_cast<std::size_t>(shape.out_pixels() * shape.filters));
  const Buffer<float> weights("weights", static_cast<std::size_t>(shape.weights()));
  const Buffer<float> bias("bias", static_cast<std::size_t>(shape.filters));
  const Buffer<std::byte> workspace("workspace", conv_workspace<float>(shape));
  Kokkos::deep_copy(x, 0.5F);
  Kokkos::deep_copy(y, 0.25F);
  Kokkos::deep_copy(weights, 0.125F);
  for ([[maybe_unused]] auto _ : state) {
    if (pass == Pass::forward) conv_forward<float>(exec, shape, x, weights, bias, false, y, workspace);
    if (pass == Pass::data) conv_backward_data<float>(exec, shape, y, weights, {}, x, false, workspace);
    if (pass == Pass::weights) conv_backward_weights<float>(exec, shape, x, y, weights, bias, workspace);
    exec.fence();
  }
  count_flops(state, shape);
}

/// A pass by the direct kernels or by Winograd's, whatever the shape: what winograd_pays is held against.
void host_convolution(benchmark::State& state, const LayerShape& layer, Pass pass, bool winograd) {
  const ConvShape shape = conv_shape(layer);
  const host::Exec exec;
  std::vector<float> x(static_cast<std::size_t>(shape.in_pixels() * shape.channels), 0.5F);
  std::vector<float> y(static_cast<std::size_t>(shape.out_pixels() * shape.filters), 0.25F);
  std::vector<float> weights(static_cast<std::size_t>(shape.weights()), 0.125F);
  std::vector<float> bias(static_cast<std::size_t>(shape.filters));
  const HostBuffer workspace("workspace",
                             std::max(host::conv_workspace<float>(shape), host::winograd_workspace<float>(shape)));
  const auto forward = winograd ? host::winograd_forward<float> : host::conv_forward<float>;
  const auto data = winograd ? host::winograd_backward_data<float> : host::conv_backward_data<float>;
  const auto gradient = winograd ? host::winograd_backward_weights<float> : host::conv_backward_weights<float>;
  for ([[maybe_unused]] auto _ : state) {
    std::byte* scratch = workspace.data();
    if (pass == Pass::forward) {
      forward(exec, shape, x.data(), weights.data(), bias.data(), false, y.data(), scratch);
    } else if (pass == Pass::data) {
      data(exec, shape, y.data(), weights.data(), nullptr, x.data(), false, scratch);
    } else {
      gradient(exec, shape, x.data(), y.data(), weights.data(), bias.data(), scratch);
    }
  }
  count_flops(state, shape);
}

#ifdef HALOGRAD_KOKKOS_KERNELS
void matrix_product(benchmark::State& state, const LayerShape& layer) {
  const ConvShape shape = conv_shape(layer);
  const auto rows = static_cast<int>(shape.out_pixels());
  const int depth = shape.taps() * shape.channels;
  using Matrix = Kokkos::View<float**, Kokkos::LayoutLeft, MemorySpace>;
  const Matrix a("a", rows, depth), b("b", depth, shape.filters), c("c", rows, shape.filters);
  Kokkos::deep_copy(a, 0.5F);
  Kokkos::deep_copy(b, 0.5F);
  for ([[maybe_unused]] auto _ : state) {
    KokkosBlas::gemm("N", "N", 1.0F, a, b, 0.0F, c);
    Kokkos::fence();
  }
  count_flops(state, shape);
}
#endif

}  // namespace
}  // namespace halograd

int main(int argc, char** argv) {
  using namespace halograd;
  const Kokkos::ScopeGuard kokkos(argc, argv);
  benchmark::Initialize(&argc, argv);
  for (const LayerShape& layer : layers) {
    const std::string name = layer.name;
    benchmark::RegisterBenchmark((name + "/forward").c_str(), convolution, layer, Pass::forward)->UseRealTime();
    benchmark::RegisterBenchmark((name + "/backward_data").c_str(), convolution, layer, Pass::data)->UseRealTime();
    benchmark::RegisterBenchmark((name + "/backward_weights").c_str(), convolution, layer, Pass::weights)
        ->UseRealTime();
    for (const bool winograd : {false, true}) {
      if (!host::winograd_applies(conv_shape(layer))) continue;
      const std::string way = name + (winograd ? "/winograd_" : "/direct_");
      const auto add = [&](const char* pass_name, Pass pass) {
        benchmark::RegisterBenchmark((way + pass_name).c_str(), host_convolution, layer, pass, winograd)->UseRealTime();
      };
      add("forward", Pass::forward);
      add("data", Pass::data);
      add("weights", Pass::weights);
    }
#ifdef HALOGRAD_KOKKOS_KERNELS
    benchmark::RegisterBenchmark((name + "/gemm").c_str(), matrix_product, layer)->UseRealTime();
#endif
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
