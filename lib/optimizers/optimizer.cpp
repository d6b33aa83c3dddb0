#include "optimizers/optimizer.hpp"

#include "kernels/error.hpp"
#include "kernels/optimizer.hpp"

namespace halograd {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerConfig& config, std::size_t parameters) : config_(config) {
    if (config.momentum > 0) state_.emplace_back("halograd::velocity", parameters);
  }
  void step(const ExecutionSpace& exec, double rate, std::int64_t /*count*/, std::size_t begin, Vector<float> weights,
            Vector<const float> gradient) override {
    const SgdStep step{rate, config_.momentum, config_.weight_decay, config_.nesterov};
    sgd<float>(exec, step, weights, gradient,
               state_.empty() ? Vector<float>() : slice(state_[0], begin, weights.extent(0)));
  }

 private:
  OptimizerConfig config_;
};

class Adam : public Optimizer {
 public:
  Adam(const OptimizerConfig& config, std::size_t parameters, bool decoupled) : config_(config), decoupled_(decoupled) {
    state_.emplace_back("halograd::first_moment", parameters);
    state_.emplace_back("halograd::second_moment", parameters);
  }
  void step(const ExecutionSpace& exec, double rate, std::int64_t count, std::size_t begin, Vector<float> weights,
            Vector<const float> gradient) override {
    const AdamStep step{rate,       config_.beta1,           config_.beta2, config_.epsilon, config_.weight_decay,
                        decoupled_, static_cast<long>(count)};
    const std::size_t length = weights.extent(0);
    adam<float>(exec, step, weights, gradient, slice(state_[0], begin, length), slice(state_[1], begin, length));
  }

 private:
  OptimizerConfig config_;
  bool decoupled_;
};

class Adagrad : public Optimizer {
 public:
  Adagrad(const OptimizerConfig& config, std::size_t parameters) : config_(config) {
    state_.emplace_back("halograd::squared_gradients", parameters);
  }
  void step(const ExecutionSpace& exec, double rate, std::int64_t /*count*/, std::size_t begin, Vector<float> weights,
            Vector<const float> gradient) override {
    adagrad<float>(exec, AdagradStep{rate, config_.epsilon, config_.weight_decay}, weights, gradient,
                   slice(state_[0], begin, weights.extent(0)));
  }

 private:
  OptimizerConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::size_t parameters) {
  if (config.name == "sgd") return std::make_unique<Sgd>(config, parameters);
  if (config.name == "adam") return std::make_unique<Adam>(config, parameters, false);
  if (config.name == "adamw") return std::make_unique<Adam>(config, parameters, true);
  if (config.name == "adagrad") return std::make_unique<Adagrad>(config, parameters);
  fail("optimizer.name: there is no optimizer '", config.name, "' (sgd, adam, adamw, adagrad)");
}

}  // namespace halograd
