#pragma once

#include <string>
#include <vector>

#include "config/comm_config.hpp"
#include "graph/step_model.hpp"
#include "kernels/codec_speed.hpp"

namespace halograd {

constexpr int most_simulated_ranks = 65536;

/// What `halograd simulate` is asked for.
struct SimulationOptions {
  std::vector<int> ranks{8, 64, 512, 4096, 65536};
  std::vector<std::string> topologies{"ring", "torus2d", "torus3d", "hypercube", "exponential", "random_regular"};
  int degree = 4;
  double tolerance = 0.01;
  long most_exchanges = 2000;
  AveragerConfig averager;  ///< of the rows with a topology; its period is that of all rows but the all-reduces
  CodecSpeed coding;        ///< of its codec
  Machine machine;
  StepWork work;
  std::size_t parameters = 0;
};

/// A line of its table: an averager on a topology of a given number of ranks.
struct SimulatedRow {
  int ranks = 0;
  std::string averager;  ///< as asked for, or gossip, ring_allreduce, tree_allreduce
  std::string topology;  ///< of the averager; one_peer_exponential of gossip; else empty
  int neighbours = 0;    ///< at most
  double gap = 0;        ///< -1: a dynamic graph has none, nor push-sum's weights where degrees are uneven
  long steps = 0;        ///< to the tolerance; -1: more than were simulated
  StepEstimate step;
};

/// Throws Error for a topology that there is not, or not for that number of ranks, and for an averager that exchanges
/// no weights along edges, does not take one of the topologies or has exact averages besides.
void require_possible(const SimulationOptions& options);

/// Prints the table as it grows and returns it.
std::vector<SimulatedRow> simulate_all(const SimulationOptions& options);

std::string csv_of(const std::vector<SimulatedRow>& rows);

}  // namespace halograd
