#include "optimizers/optimizer.hpp"

#include "kernels/optimizer.hpp"
#include "optimizers/optimizers.hpp"

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

template <class Kind>
std::unique_ptr<Optimizer> make(const OptimizerConfig& config, std::size_t parameters) {
  return std::make_unique<Kind>(config, parameters);
}

std::unique_ptr<Optimizer> make_adam(const OptimizerConfig& config, std::size_t parameters) {
  return std::make_unique<Adam>(config, parameters, false);
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config, std::size_t parameters) {
  return std::make_unique<Adam>(config, parameters, true);
}

}  // namespace

const std::vector<OptimizerType>& optimizers() {
  using Keys = SectionKeys;
  static const std::vector<OptimizerType> types{
      {"sgd", "stochastic gradient descent, optionally with momentum", Keys{"momentum", "nesterov"}, true, false,
       make<Sgd>},
      {"adam", "Adam (Kingma and Ba, 2015)", Keys{"beta1", "beta2", "epsilon"}, false, true, make_adam},
      {"adamw", "Adam with decoupled weight decay (Loshchilov and Hutter, 2019)", Keys{"beta1", "beta2", "epsilon"},
       false, true, make_adamw},
      {"adagrad", "AdaGrad (Duchi et al., 2011)", Keys{"epsilon"}, false, true, make<Adagrad>}};
  return types;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::size_t parameters) {
  return row_of(optimizers(), config.name, "optimizer.name").make(config, parameters);
}

}  // namespace halograd
