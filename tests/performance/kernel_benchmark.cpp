// The kernels beside the convolution, at the layer shapes of the reference networks: batch-norm, pooling, elementwise,
// loss, optimizer, mixing, and the codecs' time per value. Bytes are each tensor once.   kernel_benchmark
// --benchmark_filter=batch_norm

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/batch_norm.hpp"
#include "kernels/codec_speed.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/loss.hpp"
#include "kernels/mix.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/pool.hpp"

namespace halograd {
namespace {

constexpr double epsilon = 1e-5;
constexpr int batch = 32;

Buffer<float> values(std::size_t length, float value) {
  const Buffer<float> buffer("values", length);
  Kokkos::deep_copy(buffer, value);
  return buffer;
}

/// Registers what is to be timed; `moved` values of 4 bytes. Buffers live in the closure, until the benchmarks end.
void add(const std::string& name, double moved, const std::function<void(const ExecutionSpace&)>& action) {
  const auto run = [moved, action](benchmark::State& state) {
    const ExecutionSpace exec;
    for ([[maybe_unused]] auto _ : state) {
      action(exec);
      exec.fence();
    }
    state.counters["GB/s"] = benchmark::Counter(4e-9 * moved, benchmark::Counter::kIsIterationInvariantRate);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime();
}

/// Layers of resnet20 and resnet18.
void add_batch_norms() {
  struct {
    const char* name;
    int size, channels;
  } const layers[]{{"resnet20_stage1", 32, 16}, {"resnet20_stage2", 16, 32}, {"resnet20_stage3", 8, 64},
                   {"resnet18_stage1", 32, 64}, {"resnet18_stage3", 8, 256}, {"resnet18_stage4", 4, 512}};
  for (const auto& layer : layers) {
    const int channels = layer.channels;
    const long rows = static_cast<long>(batch) * layer.size * layer.size;
    const auto length = static_cast<std::size_t>(rows * channels), few = static_cast<std::size_t>(channels);
    const Buffer<float> x = values(length, 0.5F), y = values(length, 0), addend = values(length, 0.25F);
    const Buffer<float> scale = values(few, 1), shift = values(few, 0), mean = values(few, 0.5F),
                        variance = values(few, 1), dscale = values(few, 0), dshift = values(few, 0);
    const Buffer<double> workspace("workspace", batch_norm_workspace(rows, channels));
    const std::string name = std::string("batch_norm/") + layer.name;
    const auto moved = static_cast<double>(length);
    const auto forward = [=](const ExecutionSpace& exec, const Vector<const float>& added, bool relu) {
      batch_norm_forward_training<float>(exec, {.rows = rows,
                                                .channels = channels,
                                                .x = x,
                                                .scale = scale,
                                                .shift = shift,
                                                .epsilon = epsilon,
                                                .momentum = 0.1,
                                                .running_mean = mean,
                                                .running_var = variance,
                                                .saved_mean = dscale,
                                                .saved_inverse_std = dshift,
                                                .addend = added,
                                                .relu = relu,
                                                .y = y,
                                                .workspace = workspace});
    };
    add(name + "/forward", 2 * moved, [=](const auto& exec) { forward(exec, {}, false); });
    add(name + "/forward_add_relu", 3 * moved, [=](const auto& exec) { forward(exec, addend, true); });
    add(name + "/backward", 3 * moved, [=](const auto& exec) {
      batch_norm_backward<float>(exec, {.rows = rows,
                                        .channels = channels,
                                        .x = x,
                                        .dy = addend,
                                        .scale = scale,
                                        .saved_mean = mean,
                                        .saved_inverse_std = variance,
                                        .dx = y,
                                        .dscale = dscale,
                                        .dshift = dshift,
                                        .workspace = workspace});
    });
  }
}

/// lenet5's and vgg_small's, 2x2 with stride 2; and the mean over all pixels that ends the resnets.
void add_pools() {
  struct {
    const char* name;
    int size, channels;
  } const layers[]{{"lenet5_pool1", 24, 20}, {"lenet5_pool2", 8, 50}, {"vgg_pool1", 32, 64}, {"vgg_pool3", 8, 256}};
  for (const auto& layer : layers) {
    PoolShape shape;
    shape.batch = batch;
    shape.channels = layer.channels;
    shape.extent = {1, layer.size, layer.size};
    shape.kernel = shape.stride = {1, 2, 2};
    const std::size_t length = static_cast<std::size_t>(batch) * layer.size * layer.size * layer.channels;
    const Buffer<float> x = values(length, 0.5F), y = values(length / 4, 0.25F);
    const Buffer<std::uint8_t> which("which", length / 4);
    const double moved = static_cast<double>(length) * (1 + 1.0 / 4 + 1.0 / 16);
    const std::string name = std::string("max_pool/") + layer.name;
    add(name + "/forward", moved, [=](const auto& exec) { max_pool_forward<float>(exec, shape, x, false, y, which); });
    add(name + "/backward", moved,
        [=](const auto& exec) { max_pool_backward<float>(exec, shape, y, which, x, false); });
  }
  PoolShape whole;
  whole.batch = batch;
  whole.extent = whole.kernel = {1, 8, 8};
  whole.channels = 64;
  const Buffer<float> x = values(static_cast<std::size_t>(batch) * 64 * 64, 0.5F), y = values(batch * 64U, 0);
  add("avg_pool/resnet20_pool/forward", static_cast<double>(x.size() + y.size()),
      [=](const auto& exec) { avg_pool_forward<float>(exec, whole, x, y); });
}

void add_elementwise() {
  for (const long length : {64L * 8 * 8 * 50, 32L * 32 * 32 * 16, 32L * 32 * 32 * 64}) {
    const auto size = static_cast<std::size_t>(length);
    const Buffer<float> x = values(size, 0.5F), y = values(size, -0.5F), z = values(size, 0);
    const std::string number = std::string("/").append(std::to_string(length));
    const auto moved = static_cast<double>(length);
    add("relu" + number + "/forward", 2 * moved, [=](const auto& exec) { relu_forward<float>(exec, x, z); });
    add("relu" + number + "/backward", 3 * moved,
        [=](const auto& exec) { relu_backward<float>(exec, y, x, z, false); });
    add("add" + number, 3 * moved, [=](const auto& exec) { add_forward<float>(exec, x, y, z); });
    add("dropout" + number, 2 * moved, [=](const auto& exec) { dropout<float>(exec, x, z, 0.5, 1, false); });
  }
}

void add_losses() {
  for (const int classes : {10, 1000}) {
    const Buffer<float> logits = values(static_cast<std::size_t>(batch) * classes, 0.5F);
    const Buffer<float> gradient = values(logits.size(), 0);
    const Buffer<std::int32_t> labels("labels", batch);
    const LossMemory memory;
    add(std::string("softmax_cross_entropy/").append(std::to_string(classes)), static_cast<double>(2 * logits.size()),
        [=](const auto& exec) {
          softmax_cross_entropy<float>(exec,
                                       {.rows = batch,
                                        .width = classes,
                                        .outputs = logits,
                                        .labels = labels,
                                        .scale = 1.0 / batch,
                                        .gradient = gradient},
                                       0, memory);
        });
  }
}

/// As many parameters as the networks have.
void add_flat_kernels() {
  struct {
    const char* name;
    std::size_t parameters;
  } const networks[]{{"lenet5", 431080}, {"vgg_small", 2197578}, {"resnet20", 272474}, {"resnet18", 11173962}};
  for (const auto& network : networks) {
    const Buffer<float> weights = values(network.parameters, 1), gradient = values(network.parameters, 0);
    const Buffer<float> first = values(network.parameters, 0), second = values(network.parameters, 0);
    const std::string name = std::string("/") + network.name;
    const auto moved = static_cast<double>(network.parameters);
    add("sgd" + name, 5 * moved, [=](const auto& exec) {
      sgd<float>(exec, {0.01, 0.9, 0, false}, weights, gradient, first);
    });
    add("adam" + name, 7 * moved, [=](const auto& exec) {
      adam<float>(exec, {1e-3, 0.9, 0.999, 1e-8, 0, false, 1}, weights, gradient, first, second);
    });
    add("mix" + name, 4 * moved, [=](const auto& exec) {
      MixTerms terms;
      terms.self_weight = 1.0 / 3;
      terms.count = 2;
      terms.weights[0] = terms.weights[1] = 1.0 / 3;
      terms.halos[0] = first.data();
      terms.halos[1] = second.data();
      mix(exec, terms, weights);
    });
  }
}

/// Per value, as plan and simulate measure it; of 256 values top_k keeps a twentieth and a tenth.
void add_codecs() {
  const struct {
    const char* name;
    Codec codec;
  } codecs[]{{"bf16", {CodecKind::bf16}},
             {"int8", {CodecKind::int8}},
             {"top_k_13", {CodecKind::top_k, 13}},
             {"top_k_26", {CodecKind::top_k, 26}}};
  for (const auto& each : codecs) {
    const auto run = [codec = each.codec](benchmark::State& state) {
      for ([[maybe_unused]] auto _ : state) state.SetIterationTime(measure_codec_speed(ExecutionSpace(), codec).encode);
    };
    benchmark::RegisterBenchmark((std::string("encode/") + each.name).c_str(), run)->UseManualTime()->Iterations(1);
  }
}

}  // namespace
}  // namespace halograd

int main(int argc, char** argv) {
  using namespace halograd;
  const Kokkos::ScopeGuard kokkos(argc, argv);
  benchmark::Initialize(&argc, argv);
  {
    add_batch_norms();
    add_pools();
    add_elementwise();
    add_losses();
    add_flat_kernels();
    add_codecs();
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // and the buffers with them, before Kokkos ends
  return 0;
}
