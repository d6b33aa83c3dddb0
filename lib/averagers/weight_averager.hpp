#pragma once

#include "averagers/averager.hpp"

namespace halograd {

/// An averager of weights, in either order (averager.order). Combine-then-adapt is D-PSGD (Lian et al., NeurIPS 2017):
/// the exchange of x_k runs beside the gradient at x_k, and the update is made on the mixed weights. Adapt-then-combine
/// (Chen, Sayed, 2012) mixes what the update has left.
class WeightAverager : public Averager {
 public:
  /// Throws Error for an unknown order.
  explicit WeightAverager(const AveragerContext& context) : combine_first_(combines_first(context.averager)) {}

  void before_gradient(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) final {
    if (combine_first_) publish(exec, step, weights);
  }
  void before_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights, Vector<float> /*gradient*/,
                     double /*share*/) final {
    if (combine_first_) combine(exec, step, weights);
  }
  void after_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) final {
    if (combine_first_) return;
    publish(exec, step, weights);
    combine(exec, step, weights);
  }

 protected:
  [[nodiscard]] bool combine_first() const { return combine_first_; }

 private:
  /// Begins to send this step's weights.
  virtual void publish(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) = 0;
  /// Mixes what others have sent into the weights.
  virtual void combine(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) = 0;

  bool combine_first_;
};

}  // namespace halograd
