#pragma once

#include <vector>

#include "graph/graphs.hpp"

/// How long ranks wait for each other where their computing takes unequal time.
namespace halograd {

/// How unequal the computing of the ranks is.
struct Unevenness {
  double spread = 0;   ///< standard deviation of a rank's computing from step to step, relative to its mean; normal
  double slowest = 1;  ///< factor on the computing of one rank in every step, at least 1
};

/// An exchange in lockstep, as each rank sees it. Times are in seconds.
struct LockstepExchange {
  double compute = 0;  ///< computing of a step, in the mean over the steps of a rank that is not the slowest
  double hidden = 0;   ///< share of the computing that weights travel beside: they leave before its last `hidden` part
  double after = 0;    ///< what follows when both computing and exchange have ended: mixing
  int every = 1;       ///< steps from one exchange to the next
};

/// The edges of an exchange: whom each rank takes weights from, and the seconds from their leaving to their arrival.
struct TimedEdges {
  const Graph& in;
  double travel = 0;
};

/// Mean seconds per step of ranks that wait in each exchange for their own and their in-neighbours' weights. `edges`
/// are those of the exchanges in turn. With a_i the time at which rank i begins a step with an exchange, T_i its
/// computing and h = hidden, its next step begins at
///
///   max(a_i + T_i, max over j = i and the in-neighbours j of (a_j + (1 - h) T_j + travel)) + after:
///
/// a max-plus linear system (Baccelli, Cohen, Olsder, Quadrat, 1992), whose rate is its eigenvalue. Without spread that
/// is known: all ranks go at the pace of the slowest. With it there is no closed form, and the system is simulated for
/// 50 to 4000 exchanges, by the number of ranks and edges, with random numbers that are the same in every call.
double lockstep_seconds(const std::vector<TimedEdges>& edges, const LockstepExchange& exchange,
                        const Unevenness& uneven);

/// The computing of the slowest of `ranks` in a step, relative to that of a rank with the mean speed: what ranks take
/// that all wait for each other in every step. With slowest = 1 that is 1 + spread times the expected largest of as
/// many standard normal numbers (0.56 of 2, 1.42 of 8, 2.51 of 100).
double slowest_of(int ranks, const Unevenness& uneven);

}  // namespace halograd
