#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "averagers/halo_mixer.hpp"
#include "averagers/weight_averager.hpp"

namespace halograd {

/// An averager that mixes what neighbours have published as it is. On the host it goes through the weights slice by
/// slice: mix, optimizer's step, and publication, which neighbours on other nodes are sent while later slices are still
/// at work.
class HaloAverager : public WeightAverager {
 public:
  void update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights, Vector<float> gradient,
              double share, const OptimizeSlice& optimize) final;

 protected:
  /// `host_halos`: how many of a combine lie in host memory. `sliced`: whether the weights are all that is mixed.
  HaloAverager(const AveragerContext& context, std::size_t host_halos, bool sliced);

  HaloMixer mixer_;
  std::vector<WeightedHalo> halos_;  ///< of one combine

 private:
  void combine(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) final;

  /// Ends what is under way of the own weights, fills halos_ with the neighbours' of this step, or what stands for
  /// them, and returns the share of the own ones.
  virtual double take_halos(std::int64_t step) = 0;
  /// Mixes them into weights.
  virtual void mix_halos(const ExecutionSpace& exec, double self_weight, Vector<float> weights) {
    mixer_.mix(exec, self_weight, halos_, weights);
  }
  /// The mix is done.
  virtual void release_halos(std::int64_t /*step*/) {}

  // A slice of what is published next, from number `begin` on, is final.
  /// Stores it where neighbours will read it. `beyond_caches`: there is more of them than caches hold.
  virtual void store_ahead(const ExecutionSpace& /*exec*/, std::size_t /*begin*/, Vector<const float> /*values*/,
                           bool /*beyond_caches*/) {}
  /// Sends it to neighbours. Where no other step comes, this is not called.
  virtual void send_ahead(const ExecutionSpace& exec, std::size_t begin, Vector<const float> values) = 0;

  bool sliced_;
  std::int64_t last_step_;
};

}  // namespace halograd
