#pragma once

#include <cstddef>
#include <vector>

#include "config/config.hpp"
#include "kernels/types.hpp"

/// The gradient noise scale B = tr(Sigma) / |G|^2 (McCandlish, Kaplan, Amodei et al., "An Empirical Model of
/// Large-Batch Training", 2018, B_simple), with the gradient G of the expected loss and the covariance Sigma of an
/// image's gradient. The images that a training needs grow with its batch by the factor 1 + batch / B: with B images
/// per step it needs twice as many as with few.
namespace halograd {

struct NoiseScale {
  double images = 0;            ///< B, in images; infinity where G cannot be told from noise
  double least = 0, most = 0;   ///< two standard errors below and above
  double gradient_squared = 0;  ///< |G|^2, as estimated: may be negative
  double variance = 0;          ///< tr(Sigma): the variance of one image's gradient
};

/// Adds up gradients of disjoint batches of `batch` images each, at the same weights. Holds eight vectors of their
/// length, and result() one more.
class NoiseScaleSums {
 public:
  NoiseScaleSums(std::size_t length, int batch);
  /// Adds the gradient, `length` values, of one more batch's mean loss; fences.
  void add(const ExecutionSpace& exec, Vector<const float> gradient);
  /// Equations A.2 and A.3 of the paper without bias, with one batch as the small one and all as the large one; the
  /// standard error by leaving out a group of the batches at a time (the jackknife). Throws Error for fewer than
  /// `least_batches`.
  [[nodiscard]] NoiseScale result(const ExecutionSpace& exec) const;

  static constexpr int least_batches = 8;

 private:
  int batch_;
  int count_ = 0;
  std::vector<Buffer<float>> groups_;  ///< sums of gradients
  std::vector<double> squares_;        ///< sums of their squared lengths, of each group
};

/// At most so many batches of training.batch images are measured, or as many as the training set has.
constexpr int most_noise_batches = 48;

/// Trains the run file's network on its data on this rank for `warm_up_steps`, as the run file has it, and measures
/// there. Throws Error where the set has too few batches or a gradient is not finite.
NoiseScale measure_noise_scale(const RunConfig& config, int warm_up_steps);

}  // namespace halograd
