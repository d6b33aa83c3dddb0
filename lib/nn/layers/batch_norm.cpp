#include "kernels/batch_norm.hpp"

#include <limits>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

class BatchNorm : public LayerOf<BatchNorm> {
 public:
  BatchNorm(const Shape& shape, double epsilon, double momentum, const Epilogue& epilogue)
      : shape_(shape), epsilon_(epsilon), momentum_(momentum), epilogue_(epilogue) {}

  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] std::vector<TensorSpec> parameters() const override {
    return {{"scale", {shape_.channels}, {1, 0}}, {"shift", {shape_.channels}, {}}};
  }
  [[nodiscard]] std::vector<TensorSpec> statistics() const override {
    return {{"running_mean", {shape_.channels}, {}}, {"running_var", {shape_.channels}, {1, 0}}};
  }
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType /*type*/) const override {
    LayerNeeds needs;
    needs.mask = Mask::sum;
    needs.in_place = epilogue_.add;  // what is added passes the gradient on as it is
    needs.in_place_input = 1;
    // An addend's gradient is the output's own. And only with a fused ReLU: resnet20 without fusion would otherwise fit
    // into 0.8 % less memory than with it, and fusion is to cost none (tests/nn/fuse_test.cpp).
    needs.gradient_in_place = !epilogue_.add && (epilogue_.relu || epilogue_.relu6);
    needs.saved_bytes = 2 * sizeof(float) * static_cast<std::size_t>(shape_.channels);
    if (add_) needs.summed = 2 * static_cast<std::size_t>(shape_.channels);
    needs.workspace_bytes = sizeof(double) * batch_norm_workspace(rows(largest_batch), shape_.channels);
    return needs;
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    const Vector<const float>&scale = call.parameters[0], &shift = call.parameters[1];
    const Vector<float>&mean = call.statistics[0], &var = call.statistics[1];
    const Vector<const T> addend = epilogue_.add ? call.x<T>(1) : Vector<const T>();
    if (call.training) {
      batch_norm_forward_training<T>(exec, {.rows = rows(call.batch),
                                            .channels = shape_.channels,
                                            .x = call.x<T>(0),
                                            .scale = scale,
                                            .shift = shift,
                                            .epsilon = epsilon_,
                                            .momentum = momentum_,
                                            .running_mean = mean,
                                            .running_var = var,
                                            .saved_mean = saved(call, 0),
                                            .saved_inverse_std = saved(call, 1),
                                            .addend = addend,
                                            .relu = epilogue_.relu,
                                            .ceiling = ceiling(),
                                            .y = call.y<T>(),
                                            .workspace = workspace(call),
                                            .all = all_rows(call)});
    } else {
      batch_norm_forward_inference<T>(exec, {.rows = rows(call.batch),
                                             .channels = shape_.channels,
                                             .x = call.x<T>(0),
                                             .scale = scale,
                                             .shift = shift,
                                             .epsilon = epsilon_,
                                             .running_mean = mean,
                                             .running_var = var,
                                             .addend = addend,
                                             .relu = epilogue_.relu,
                                             .ceiling = ceiling(),
                                             .y = call.y<T>()});
    }
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    batch_norm_backward<T>(exec, {.rows = rows(call.batch),
                                  .channels = shape_.channels,
                                  .x = call.x<T>(0),
                                  .dy = call.dy<T>(),
                                  .scale = call.parameters[0],
                                  .shift = call.parameters[1],
                                  .saved_mean = saved(call, 0),
                                  .saved_inverse_std = saved(call, 1),
                                  .dx = call.dx<T>(0),
                                  .dscale = call.parameter_gradients[0],
                                  .dshift = call.parameter_gradients[1],
                                  .ceiling = ceiling(),
                                  .accumulate = call.accumulate[0],
                                  .mask = call.mask,
                                  .workspace = workspace(call),
                                  .all = all_rows(call)});
    if (epilogue_.add) pass_gradient<T>(exec, call, 1);
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    auto layer = std::make_unique<BatchNorm>(*this);
    layer->all_pixels_ = shape_.pixels();
    layer->shape_ = part_of(shape_, part.output);
    layer->add_ = part.add;
    return layer;
  }

 private:
  [[nodiscard]] double ceiling() const { return epilogue_.relu6 ? 6 : std::numeric_limits<double>::infinity(); }
  [[nodiscard]] AllRows all_rows(const LayerCall& call) const { return {call.batch * all_pixels_, add_}; }
  [[nodiscard]] long rows(int batch) const { return batch * shape_.pixels(); }
  /// 0: the batch's mean, 1: its inverse standard deviation.
  [[nodiscard]] Vector<float> saved(const LayerCall& call, std::size_t which) const {
    const std::size_t channels = static_cast<std::size_t>(shape_.channels);
    return values_at<float>(call.saved, which * channels * sizeof(float), channels);
  }

  [[nodiscard]] static Vector<double> workspace(const LayerCall& call) {
    return values_at<double>(call.workspace, 0, call.workspace.size() / sizeof(double));
  }

  Shape shape_;
  double epsilon_, momentum_;
  Epilogue epilogue_;
  long all_pixels_ = 0;  ///< of the image, where this is a part of it
  AddOverRanks add_{};
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const LayerConfig& config, const std::vector<Shape>& inputs,
                                       const Epilogue& epilogue) {
  if (epilogue.add) {
    HALOGRAD_REQUIRE(inputs[0] == inputs[1], "layer ", config.name, " (batch_norm + add): a shape of ",
                     to_string(inputs[1]), " is added to one of ", to_string(inputs[0]), ", equal shapes expected");
  }
  return std::make_unique<BatchNorm>(inputs[0], config.epsilon, config.momentum, epilogue);
}

}  // namespace halograd
