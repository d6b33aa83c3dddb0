#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/edge_log.hpp"
#include "comm/topology.hpp"
#include "config/comm_config.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// Keeps the replicas of a communicator together. The Trainer calls the hooks in this order in every step;
/// each algorithm uses those it needs. Steps count from 0; after a resume they go on from the checkpoint's.
class Averager {
 public:
  virtual ~Averager() = default;
  /// The weights x_k are final: an exchange of them may begin, and overlap the gradient computation.
  virtual void before_gradient(const ExecutionSpace&, std::int64_t /*step*/, Vector<const float> /*weights*/) {}
  /// During the gradient computation, by all ranks with the same values of `begin`: the gradient's values from `begin`
  /// to its end are complete. `share`: this rank's share of the global batch (images / images of all ranks).
  virtual void gradient_ready(const ExecutionSpace&, Vector<const float> /*gradient*/, std::size_t /*begin*/,
                              double /*share*/) {}
  /// The gradient g_k is complete. `share` as above, or 0 where this rank's gradient was left out and is zero now.
  virtual void before_update(const ExecutionSpace&, std::int64_t /*step*/, Vector<float> /*weights*/,
                             Vector<float> /*gradient*/, double /*share*/) {}
  /// The optimizer has made its step.
  virtual void after_update(const ExecutionSpace&, std::int64_t /*step*/, Vector<float> /*weights*/) {}

  /// Whether before_update makes the gradient the same on all ranks: then all make the optimizer's step, or none.
  [[nodiscard]] virtual bool shares_gradients() const { return false; }

  /// Seconds this rank has waited for others, and bytes it has sent to them, since construction.
  [[nodiscard]] virtual double wait_seconds() const { return 0; }
  [[nodiscard]] virtual std::int64_t bytes_sent() const { return 0; }
  /// What has come over this rank's in-edges since the last call; empty where an algorithm has none.
  virtual std::vector<EdgeRecord> take_edges() { return {}; }
};

/// The one factory. Collective; `length` is the number of weights, `first_step` the step that comes next.
std::unique_ptr<Averager> make_averager(const AveragerConfig& averager, const CommConfig& transport,
                                        const Topology& topology, MPI_Comm comm, std::size_t length,
                                        std::int64_t first_step);

/// Bytes that `rank` sends in a step of `length` weights.
std::int64_t bytes_per_step(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length);

}  // namespace halograd
