#include "nn/layer_types.hpp"

#include "nn/layer.hpp"

namespace halograd {

// The factories, each beside its class in nn/layers/.
LayerFactory make_conv, make_conv_transpose, make_dense, make_max_pool, make_avg_pool, make_global_avg_pool,
    make_upsample, make_batch_norm, make_group_norm, make_layer_norm, make_relu, make_relu6, make_leaky_relu,
    make_sigmoid, make_tanh, make_gelu, make_silu, make_add, make_concat, make_slice, make_flatten, make_dropout;

const std::vector<LayerType>& layer_types() {
  using Keys = LayerKeys;
  constexpr Epilogue alone, relu{.relu = true}, any{.add = true, .relu = true, .relu6 = true};
  constexpr auto one = one_input;
  constexpr auto unfused = FusesAs::nothing;
  static const std::vector<LayerType> types{
      {"conv", "Convolution.", make_conv, Keys{"channels", "kernel"},
       Keys{"stride", "padding", "dilation", "groups", "bias"}, one, relu, unfused, Features::pixels},
      {"conv_transpose", "Transposed convolution: the gradient of a convolution, which grows its input by `stride`.",
       make_conv_transpose, Keys{"channels", "kernel"},
       Keys{"stride", "padding", "dilation", "output_padding", "groups", "bias"}, one, alone, unfused,
       Features::pixels},
      {"dense", "Every output is a weighted sum of all inputs.", make_dense, Keys{"channels"}, Keys{"bias"}, one, relu,
       unfused, Features::mixed},
      {"max_pool", "The largest value of each window.", make_max_pool, Keys{"kernel"}, Keys{"stride", "padding"}, one,
       alone, unfused, Features::pixels},
      {"avg_pool", "The mean of each window.", make_avg_pool, Keys{"kernel"}, Keys{"stride", "padding"}, one, alone,
       unfused, Features::pixels},
      {"global_avg_pool", "The mean of each channel over the image.", make_global_avg_pool, Keys{}, Keys{}, one, alone,
       unfused, Features::pixels},
      {"upsample", "Repeats each pixel (nearest neighbour).", make_upsample, Keys{}, Keys{"factor"}, one, alone,
       unfused, Features::pixels},
      {"batch_norm",
       "Normalises each channel to mean 0 and variance 1 over the batch, then applies a trained scale and shift.",
       make_batch_norm, Keys{}, Keys{"epsilon", "momentum"}, one, any, unfused, Features::apart},
      {"group_norm",
       "Normalises each group of channels of an image to mean 0 and variance 1, then applies a trained scale and shift",
       make_group_norm, Keys{"groups"}, Keys{"epsilon"}, one, alone, unfused, Features::pixels},
      {"layer_norm",
       "Normalises the channels of each pixel to mean 0 and variance 1, then applies a trained scale and shift",
       make_layer_norm, Keys{}, Keys{"epsilon"}, one, alone, unfused, Features::pixels},
      {"relu", "Sets negative values to 0.", make_relu, Keys{}, Keys{}, one, alone, FusesAs::relu, Features::apart},
      {"relu6", "Sets negative values to 0 and values above 6 to 6.", make_relu6, Keys{}, Keys{}, one, alone,
       FusesAs::relu6, Features::apart},
      {"leaky_relu", "Multiplies negative values by a slope.", make_leaky_relu, Keys{}, Keys{"slope"}, one, alone,
       unfused, Features::apart},
      {"sigmoid", "1 / (1 + exp(-x)).", make_sigmoid, Keys{}, Keys{}, one, alone, unfused, Features::apart},
      {"tanh", "The hyperbolic tangent, times a scale.", make_tanh, Keys{}, Keys{"scale"}, one, alone, unfused,
       Features::apart},
      {"gelu", "x times the normal distribution function at x", make_gelu, Keys{}, Keys{}, one, alone, unfused,
       Features::apart},
      {"silu", "x sigmoid(x).", make_silu, Keys{}, Keys{}, one, alone, unfused, Features::apart},
      {"add", "The sum of two inputs of the same shape.", make_add, Keys{}, Keys{}, two_inputs, alone, FusesAs::add,
       Features::apart},
      {"concat", "The channels of at least two inputs, one input after the other.", make_concat, Keys{}, Keys{},
       several_inputs, alone, unfused, Features::pixels},
      {"slice", "Some channels of its input, which follow each other.", make_slice, Keys{"channels"}, Keys{"first"},
       one, alone, unfused, Features::pixels},
      {"flatten", "Turns all values into features of one pixel.", make_flatten, Keys{}, Keys{}, one, alone, unfused,
       Features::folded},
      {"dropout", "Sets values to zero at random in training.", make_dropout, Keys{}, Keys{"probability"}, one, alone,
       unfused, Features::apart}};
  return types;
}

const LayerType& type_of(const LayerConfig& layer) {
  return row_of(layer_types(), layer.type, "layer " + layer.name + ": its type");
}

}  // namespace halograd
