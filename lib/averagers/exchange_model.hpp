#pragma once

#include <cstddef>
#include <vector>

#include "config/comm_config.hpp"
#include "graph/step_model.hpp"
#include "kernels/codec_speed.hpp"

/// The step model (graph/step_model.hpp) of an averager, as its row and its codec's describe it.
namespace halograd {

/// A job whose steps are predicted: rank r of P is on node r / machine.ranks_per_node.
struct ModelledJob {
  Machine machine;
  int ranks = 1;
  std::size_t parameters = 0;
  int slots = 2;  ///< comm.slots
};

class ExchangeModel {
 public:
  /// The averager is to exchange gradients or weights (AveragerRow::exchanges). Where the row's graph is one of nodes,
  /// so is the topology. `coding`: measured with the averager's codec; where it has none it is not looked at. Throws
  /// Error for an unknown name, for a graph that does not repeat, and whatever make_topology throws.
  ExchangeModel(const AveragerConfig& averager, const TopologyConfig& topology, const ModelledJob& job,
                const CodecSpeed& coding = {});

  /// What a rank does for an exchange in every `every`-th step.
  [[nodiscard]] ExchangeWork work(int every = 1) const;
  /// A step with such an exchange. An all-reduce takes the faster of ring and tree, a coded one the ring.
  [[nodiscard]] StepEstimate step(const StepWork& computing, int every = 1) const;
  /// Bytes that the ranks of a node hold for it, beside what each needs to train alone.
  [[nodiscard]] double node_memory() const;
  /// Out-neighbours of a rank, or of a node, at most.
  [[nodiscard]] int most_neighbours() const;

 private:
  // Bytes read and written in models, per exchange and in each step.
  [[nodiscard]] double memory_traffic(int every) const;
  [[nodiscard]] double step_traffic() const;
  /// Whether some ranks that exchange share a node.
  [[nodiscard]] bool any_inside() const;

  AveragerConfig averager_;
  ModelledJob job_;
  std::vector<EdgeLoad> loads_;
  bool changes_ = false;
  int node_ranks_ = 1;  ///< of a node that is full
  double model_bytes_ = 0, message_bytes_ = 0, coding_seconds_ = 0, hidden_ = 0;
};

}  // namespace halograd
