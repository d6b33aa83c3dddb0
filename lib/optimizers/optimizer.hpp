#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/training_config.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// Turns a gradient into a step of the weights. State lives in flat buffers as long as those of the parameters that
/// this rank optimizes, which a checkpoint keeps.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One step of the weights from number `begin` on, as many as are given; `count` = 1, 2, ... is its number since the
  /// state was zero.
  virtual void step(const ExecutionSpace& exec, double rate, std::int64_t count, std::size_t begin,
                    Vector<float> weights, Vector<const float> gradient) = 0;
  [[nodiscard]] const std::vector<Buffer<float>>& state() const { return state_; }

 protected:
  std::vector<Buffer<float>> state_;
};

/// An optimizer of the type that `config` names (optimizers.hpp). Throws Error where there is none of that name.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::size_t parameters);

}  // namespace halograd
