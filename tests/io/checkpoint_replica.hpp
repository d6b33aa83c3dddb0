#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "tests/io/mpi_helpers.hpp"

/// A replica to write and read, and its file as bytes.
namespace halograd::test {

inline HostVector<float> range(std::vector<float>& values) {
  return HostVector<float>(values.data(), values.size());
}

/// A replica whose bits differ in every value, rank and buffer, with the two networks' tensors: weight (2,3,1,4), bias
/// (4), a gap of 4 that belongs to no tensor, weight (5,2); statistics mean (4) and variance (4).
struct Replica {
  static constexpr std::size_t parameter_count = 42, statistic_count = 8;
  std::vector<float> parameters, first, second, statistics;

  explicit Replica(int rank, std::size_t count = parameter_count) {
    const auto value = [&](std::size_t i, int buffer) {
      return static_cast<float>(std::sin(1.0 + static_cast<double>(i) + 100.0 * rank + 7919.0 * buffer) * (1 + rank));
    };
    for (std::size_t i = 0; i < count; ++i) {
      const bool gap = i >= 28 && i < 32;
      parameters.push_back(gap ? 0.0F : value(i, 0));
      first.push_back(value(i, 1));
      second.push_back(value(i, 2));
    }
    for (std::size_t i = 0; i < statistic_count; ++i) statistics.push_back(value(i, 3));
  }
  ReplicaState state() { return {range(parameters), {range(first), range(second)}, range(statistics)}; }
  void clear() {
    for (auto* buffer : {&parameters, &first, &second, &statistics}) buffer->assign(buffer->size(), 0.0F);
  }
};

inline const std::vector<NamedTensor> parameter_tensors{
    {"conv1", "weight", {2, 3, 1, 4}, 0}, {"conv1", "bias", {4}, 24}, {"dense2", "weight", {5, 2}, 32}};
inline const std::vector<NamedTensor> statistic_tensors{{"norm", "running_mean", {4}, 0},
                                                        {"norm", "running_variance", {4}, 4}};

inline CheckpointHeader example_header() {
  return {.step = 120,
          .epoch = 3,
          .step_in_epoch = 17,
          .ranks = ranks_of(),
          .network = "lenet5",
          .averager = "neighbour combine_then_adapt",
          .topology = "ring",
          .config = "name = \"Zürich\"\n",
          .versions = "halograd 0.1",
          .input = "28x28x1",
          .optimizer_steps = 45};
}

inline void write(const std::string& path, Replica& replica) {
  write_checkpoint(MPI_COMM_WORLD, path, example_header(), replica.state(), parameter_tensors, statistic_tensors);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<char> bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void put_bytes(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace halograd::test
