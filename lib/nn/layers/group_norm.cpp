#include "kernels/group_norm.hpp"

#include "kernels/error.hpp"
#include "nn/layer.hpp"

namespace halograd {
namespace {

/// Group normalisation, and layer normalisation as one group a pixel.
class GroupNorm : public LayerOf<GroupNorm> {
 public:
  /// `pixel_alone`: each pixel is a sample of its own.
  GroupNorm(const Shape& shape, int groups, bool pixel_alone, double epsilon)
      : shape_(shape), groups_(groups), pixel_alone_(pixel_alone), epsilon_(epsilon) {}

  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] std::vector<TensorSpec> parameters() const override {
    return {{"scale", {shape_.channels}, {1, 0}}, {"shift", {shape_.channels}, {}}};
  }
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType /*type*/) const override {
    const GroupNormShape shape = with_batch(largest_batch);
    LayerNeeds needs;
    needs.saved_bytes = 2 * sizeof(float) * static_cast<std::size_t>(shape.statistics());
    if (add_) needs.summed = 2 * static_cast<std::size_t>(shape.statistics());
    needs.workspace_bytes = sizeof(double) * group_norm_workspace(shape);
    return needs;
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    group_norm_forward<T>(exec, {.shape = with_batch(call.batch),
                                 .x = call.x<T>(0),
                                 .scale = call.parameters[0],
                                 .shift = call.parameters[1],
                                 .epsilon = epsilon_,
                                 .saved_mean = saved(call, 0),
                                 .saved_inverse_std = saved(call, 1),
                                 .y = call.y<T>(),
                                 .workspace = workspace(call),
                                 .all = {all_pixels_, add_}});
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    group_norm_backward<T>(exec, {.shape = with_batch(call.batch),
                                  .x = call.x<T>(0),
                                  .dy = call.dy<T>(),
                                  .scale = call.parameters[0],
                                  .saved_mean = saved(call, 0),
                                  .saved_inverse_std = saved(call, 1),
                                  .dx = call.dx<T>(0),
                                  .dscale = call.parameter_gradients[0],
                                  .dshift = call.parameter_gradients[1],
                                  .accumulate = call.accumulate[0],
                                  .workspace = workspace(call),
                                  .all = {all_pixels_, add_}});
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    auto layer = std::make_unique<GroupNorm>(*this);
    layer->shape_ = part_of(shape_, part.output);
    if (pixel_alone_) return layer;
    layer->all_pixels_ = shape_.pixels();
    layer->add_ = part.add;
    return layer;
  }

 private:
  [[nodiscard]] GroupNormShape with_batch(long batch) const {
    if (pixel_alone_) return {batch * shape_.pixels(), 1, shape_.channels, 1};
    return {batch, shape_.pixels(), shape_.channels, groups_};
  }
  /// 0: the means, 1: the inverse standard deviations.
  [[nodiscard]] Vector<float> saved(const LayerCall& call, std::size_t which) const {
    const auto count = static_cast<std::size_t>(with_batch(call.batch).statistics());
    return values_at<float>(call.saved, which * count * sizeof(float), count);
  }
  [[nodiscard]] static Vector<double> workspace(const LayerCall& call) {
    return values_at<double>(call.workspace, 0, call.workspace.size() / sizeof(double));
  }

  Shape shape_;
  int groups_;
  bool pixel_alone_;
  double epsilon_;
  long all_pixels_ = 0;  ///< of the image, where this is a part of it
  AddOverRanks add_{};
};

}  // namespace

std::unique_ptr<Layer> make_group_norm(const LayerConfig& config, const std::vector<Shape>& inputs,
                                       const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  HALOGRAD_REQUIRE(config.groups >= 1 && input.channels % config.groups == 0, "layer ", config.name,
                   " (group_norm): groups = ", config.groups, " does not divide its input's ", input.channels,
                   " channels");
  return std::make_unique<GroupNorm>(input, config.groups, false, config.epsilon);
}

std::unique_ptr<Layer> make_layer_norm(const LayerConfig& config, const std::vector<Shape>& inputs,
                                       const Epilogue& /*epilogue*/) {
  return std::make_unique<GroupNorm>(inputs[0], 1, true, config.epsilon);
}

}  // namespace halograd
