#include "app/benchmark_table.hpp"

#include <algorithm>
#include <cstdio>

#include "kernels/conv.hpp"
#include "kernels/types.hpp"
#include "nn/precisions.hpp"
#include "support/json.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

/// A number with `decimals` decimals, or a dash if it is not known.
std::string figure(int decimals, double value, bool known) {
  return known ? format("%.*f", decimals, value) : "-";
}

/// Shares are those of `peak`, in operations a second, and of `bandwidth`, in bytes a second.
void print_row(double peak, double bandwidth, const PassTime& pass, double step_seconds) {
  const double flop_rate = pass.flops / pass.seconds, byte_rate = pass.bytes / pass.seconds;
  const bool computes = pass.flops > 0 && pass.seconds > 0, moves = pass.bytes > 0 && pass.seconds > 0;
  std::printf("  %-26s %-11s %-9s %10.3f %6.1f %9s %6s %9s %8s %6s\n", pass.layer.c_str(), pass.output.c_str(),
              pass.pass.c_str(), 1e3 * pass.seconds, 100 * pass.seconds / step_seconds,
              figure(1, 1e-9 * flop_rate, computes).c_str(), figure(1, 100 * flop_rate / peak, computes).c_str(),
              figure(3, 1e-6 * pass.bytes, pass.bytes > 0).c_str(), figure(2, 1e-9 * byte_rate, moves).c_str(),
              figure(1, 100 * byte_rate / bandwidth, moves).c_str());
}

PassTime total_of(const BenchmarkResult& result) {
  PassTime total{"total", "", "", "", 0, 0, 0};
  for (const PassTime& pass : result.passes) {
    total.seconds += pass.seconds;
    total.flops += pass.flops;
    total.bytes += pass.bytes;
  }
  return total;
}

/// Sums over all layers of a type, by pass: "conv", "weights". The longest first.
std::vector<PassTime> by_type(const BenchmarkResult& result) {
  std::vector<PassTime> sums;
  for (const PassTime& pass : result.passes) {
    if (pass.type.empty()) continue;
    const auto found = std::find_if(
        sums.begin(), sums.end(), [&](const PassTime& sum) { return sum.layer == pass.type && sum.pass == pass.pass; });
    PassTime& sum = found != sums.end() ? *found : sums.emplace_back(PassTime{pass.type, "", "", pass.pass, 0, 0, 0});
    sum.seconds += pass.seconds;
    sum.flops += pass.flops;
    sum.bytes += pass.bytes;
  }
  std::sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return sums;
}

Json json_of(const PassTime& pass) {
  Json object;
  object["layer"] = pass.layer;
  object["type"] = pass.type;
  object["output"] = pass.output;
  object["pass"] = pass.pass;
  object["seconds"] = pass.seconds;
  object["flops"] = pass.flops;
  object["bytes"] = pass.bytes;
  return object;
}

Json json_of(const BenchmarkResult& result) {
  Json object;
  object["network"] = result.network;
  object["input"] = result.input;
  object["classes"] = result.classes;
  object["batch"] = result.batch;
  object["precision"] = result.precision;
  object["parameters"] = result.parameters;
  object["steps"] = result.steps;
  object["images_per_second"] = result.images_per_second;
  object["step_seconds"] = result.seconds;
  object["fastest_step_seconds"] = result.fastest;
  object["slowest_step_seconds"] = result.slowest;
  object["step_flops"] = result.flops;
  object["arena_bytes"] = result.arena_bytes;
  object["peak_memory_bytes"] = result.peak_memory;
  if (!runs_on_host) object["device_memory_bytes"] = result.device_memory;
  if (result.group.exchanges > 0) {
    object["group_bytes"] = result.group.bytes;
    object["group_exchanges"] = result.group.exchanges;
  }
  if (!result.replay_refusal.empty()) object["replay_refusal"] = result.replay_refusal;
  if (result.passes.empty()) return object;
  object["timed_step_seconds"] = result.timed_seconds;
  std::vector<Json> passes;
  for (const PassTime& pass : result.passes) passes.push_back(json_of(pass));
  object["passes"] = passes;
  return object;
}

}  // namespace

double BenchmarkTable::peak(const BenchmarkResult& result) const {
  return bf16_peak > 0 && precision_named(result.precision) == Precision::bf16 ? bf16_peak : fma_peak;
}

void BenchmarkTable::print(const BenchmarkResult& result) const {
  const double rate = result.flops / result.seconds;
  std::printf("%s: %zu parameters, images of %s, %d classes, batch %d, %s, %s with %d thread%s\n",
              result.network.c_str(), result.parameters, result.input.c_str(), result.classes, result.batch,
              result.precision.c_str(), ExecutionSpace::name(), threads, threads == 1 ? "" : "s");
  std::printf("  %.1f images/s: median of %ld steps %.3f ms (fastest %.3f, slowest %.3f)\n", result.images_per_second,
              result.steps, 1e3 * result.seconds, 1e3 * result.fastest, 1e3 * result.slowest);
  std::printf("  %.1f GFLOP/s in convolutions and dense layers over the whole step, %.1f %% of the %s peak\n",
              1e-9 * rate, 100 * rate / peak(result), peak(result) == fma_peak ? "FMA" : "bf16");
  std::printf("  memory: %s at most, including %s for activations and gradients\n",
              human_bytes(result.peak_memory).c_str(), human_bytes(result.arena_bytes).c_str());
  if (!runs_on_host) std::printf("  memory of the device: %s\n", human_bytes(result.device_memory).c_str());
  if (result.group.exchanges > 0) {
    std::printf("  one rank of a group, which would send %s in %g exchanges per step to the others\n",
                human_bytes(result.group.bytes).c_str(), result.group.exchanges);
  }
  if (!result.replay_refusal.empty()) {
    std::printf("  steps could not be recorded and ran kernel by kernel: %s\n", result.replay_refusal.c_str());
  }
  std::printf("  measured here: FMA peak %.1f GFLOP/s, ", 1e-9 * fma_peak);
  if (bf16_peak > 0) std::printf("bf16 peak %.1f GFLOP/s, ", 1e-9 * bf16_peak);
  std::printf("memory bandwidth %.2f GB/s (triad)\n", 1e-9 * bandwidth);
  if (!result.passes.empty()) {
    std::printf("\n  %-26s %-11s %-9s %10s %6s %9s %6s %9s %8s %6s\n", "layer", "output", "pass", "ms", "%", "GFLOP/s",
                "% peak", "MB", "GB/s", "% bw");
    const PassTime total = total_of(result);
    for (const PassTime& pass : result.passes) print_row(peak(result), bandwidth, pass, total.seconds);
    print_row(peak(result), bandwidth, total, total.seconds);
    std::printf("  total by type of layer:\n");
    for (const PassTime& sum : by_type(result)) print_row(peak(result), bandwidth, sum, total.seconds);
    std::printf("  with a fence around each layer; a step without them takes %.3f ms\n", 1e3 * result.seconds);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void BenchmarkTable::print_json(const std::vector<BenchmarkResult>& results) const {
  Json object;
  object["device"] = ExecutionSpace::name();
  object["threads"] = threads;
  object["fma_peak_flops"] = fma_peak;
  if (bf16_peak > 0) object["bf16_peak_flops"] = bf16_peak;
  object["memory_bandwidth_bytes"] = bandwidth;
  std::vector<Json> networks;
  networks.reserve(results.size());
  for (const BenchmarkResult& result : results) networks.push_back(json_of(result));
  object["networks"] = networks;
  std::printf("%s\n", json_text(object).c_str());
}

}  // namespace halograd
