#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "averagers/averager_table.hpp"
#include "config/comm_config.hpp"
#include "graph/topology.hpp"
#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "support/numbers.hpp"
#include "window/edge_log.hpp"
#include "window/halo_values.hpp"

namespace halograd {

/// What an averager is made of. The references need only last while it is made.
struct AveragerContext {
  const AveragerConfig& averager;
  const CommConfig& transport;
  const Topology& topology;
  Communicator comm;
  std::size_t length;           ///< of the weights
  std::int64_t first_step = 0;  ///< the step that comes next

  /// The optimizer's buffers, each as long as the weights.
  std::vector<Vector<float>> optimizer_state{};
  /// Makes one more step of the optimizer at the current learning rate, with another gradient than the rank's own.
  std::function<void(const ExecutionSpace&, Vector<float> weights, Vector<const float> gradient)> optimizer_step{};
  /// Sets the optimizer's buffers to zero, and lets its steps count from 1 again.
  std::function<void(const ExecutionSpace&)> restart_optimizer{};

  /// Where the halos of neighbour averaging lie (window/halo_place.hpp); the same on all ranks.
  HaloMemory halo_memory = HaloMemory::host;
  std::int64_t first_epoch = 0;  ///< epochs done
  /// The ranks that share this one's replica, where the weights are a part of it: decisions are theirs together. Null:
  /// there are no others.
  const Communicator* group = nullptr;
  std::int64_t last_step = -1;  ///< of the run; -1: not known
};

/// The optimizer's step of `length` weights from number `begin` on.
using OptimizeSlice = std::function<void(std::size_t begin, std::size_t length)>;

/// Keeps the replicas of a communicator together. The Trainer calls the hooks in this order in every step, the last two
/// through update(); each algorithm uses those it needs. Steps count from 0; after a resume they go on from the
/// checkpoint's.
class Averager {
 public:
  virtual ~Averager() = default;
  /// The weights x_k are final: an exchange of them may begin, and overlap the gradient computation.
  virtual void before_gradient(const ExecutionSpace&, std::int64_t /*step*/, Vector<const float> /*weights*/) {}
  /// During the gradient computation, by all ranks with the same values of `begin`: the gradient's values from `begin`
  /// to its end are complete. `share`: this rank's share of the global batch (images / images of all ranks). Only an
  /// averager that works beside the gradient (AveragerRow::beside_gradient) is sure to be called.
  virtual void gradient_ready(const ExecutionSpace&, Vector<const float> /*gradient*/, std::size_t /*begin*/,
                              double /*share*/) {}
  /// The gradient g_k is complete. `share` as above, or 0 where this rank's gradient was left out and is zero now.
  virtual void before_update(const ExecutionSpace&, std::int64_t /*step*/, Vector<float> /*weights*/,
                             Vector<float> /*gradient*/, double /*share*/) {}
  /// The optimizer has made its step.
  virtual void after_update(const ExecutionSpace&, std::int64_t /*step*/, Vector<float> /*weights*/) {}
  /// These two with the optimizer's step between them, which `optimize` makes for a slice of the weights. An averager
  /// may go through the weights slice by slice instead, so that each comes from memory once, and sends them meanwhile:
  /// where another step may come they stay as they are until its before_gradient(), and last as long as the averager.
  virtual void update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights, Vector<float> gradient,
                      double share, const OptimizeSlice& optimize) {
    before_update(exec, step, weights, gradient, share);
    optimize(0, weights.extent(0));
    after_update(exec, step, weights);
  }

  /// The same two moments of a step without an exchange (averager.every).
  virtual void before_local_update(const ExecutionSpace&, Vector<const float> /*weights*/) {}
  virtual void after_local_update(const ExecutionSpace&, Vector<float> /*weights*/) {}

  /// Collective, between two steps, before the replicas are compared or kept: brings to an end what is under way
  /// outside of state(). At a free pace only after the last step. Whether it has changed the weights.
  virtual bool settle(const ExecutionSpace&, Vector<float> /*weights*/) { return false; }
  /// After each evaluation at the end of an epoch: `epochs` are done, `score` is this replica's, the larger the better.
  /// Collective, but at a free pace (Pace::free), where each rank calls it in its own time, and those of a group call
  /// it together. Whether it has changed the weights.
  virtual bool after_epoch(const ExecutionSpace&, std::int64_t /*epochs*/, Vector<float> /*weights*/,
                           double /*score*/) {
    return false;
  }

  /// What the coming steps depend on beside weights and optimizer, as it is between two steps: a checkpoint keeps it,
  /// so that a resumed run goes on with the same bits. Valid until the next step. After a resume the ranges are filled
  /// with what the same averager on the same number of ranks had there, and restored() is called, which is collective.
  /// At a free pace it may be asked for at any step, and need not hold what is under way.
  [[nodiscard]] virtual std::vector<SavedState> state() { return {}; }
  virtual void restored() {}

  /// Steps from one exchange to the next, as it stands; 0: none.
  [[nodiscard]] virtual std::int64_t period() const { return 1; }

  /// Seconds this rank has waited for others, and bytes it has sent to them, since construction.
  [[nodiscard]] virtual double wait_seconds() const { return 0; }
  [[nodiscard]] virtual std::int64_t bytes_sent() const { return 0; }
  /// What has come over this rank's in-edges since the last call; empty where an algorithm has none.
  virtual std::vector<EdgeRecord> take_edges() { return {}; }
};

/// The one factory: the averager of averager_table.hpp that the configuration names, in every step or as often as it
/// asks for. Collective. Throws Error for an unknown name.
std::unique_ptr<Averager> make_averager(const AveragerContext& context);

/// Bytes that `rank` sends per step, on average, for `length` weights and as many values in each optimizer buffer. With
/// a consensus target: what it would send with the longest period. `ranks_per_node`: 1, unless the topology is one of
/// nodes; what stays in a node does not count.
double bytes_per_step(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length,
                      std::size_t optimizer_buffers = 0, int ranks_per_node = 1);

}  // namespace halograd
