#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mpi/communicator.hpp"

namespace halograd {

/// How often labels of each class were taken for each class.
class Confusion {
 public:
  explicit Confusion(int classes);

  /// labels (N) in 0..classes-1; scores (N, K) as predicted_class takes them.
  void add(std::span<const std::int32_t> labels, std::span<const float> scores);
  /// Collective: becomes that of all ranks.
  void sum(const Communicator& comm);

  [[nodiscard]] int classes() const { return classes_; }
  [[nodiscard]] long count(int label, int predicted) const;
  [[nodiscard]] long labels(int label) const;
  /// Share of a class's labels that were predicted; 0 where there are none.
  [[nodiscard]] double accuracy(int label) const;

 private:
  int classes_;
  std::vector<std::int64_t> counts_;  // (label, predicted)
};

}  // namespace halograd
