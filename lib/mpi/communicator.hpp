#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "kernels/types.hpp"
#include "mpi/wait.hpp"

namespace halograd {

[[nodiscard]] int rank_of(MPI_Comm comm);

/// The ranks of a job, as the parts above comm see them. Collective calls give up the core while they wait.
class Communicator {
 public:
  /// Collective. `comm` must outlive this.
  explicit Communicator(MPI_Comm comm);
  ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] MPI_Comm handle() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int node_rank() const { return node_rank_; }  ///< among the ranks that share this one's memory
  [[nodiscard]] int node_ranks() const { return node_ranks_; }
  [[nodiscard]] int nodes() const { return nodes_; }
  /// For each rank, the lowest rank that it shares memory with.
  [[nodiscard]] const std::vector<int>& node_of_rank() const { return node_of_rank_; }

  /// Collective: adds `count` values over the ranks, in place.
  void sum(double* values, int count) const;
  [[nodiscard]] double sum(double value) const;
  [[nodiscard]] double largest(double value) const;
  [[nodiscard]] double smallest(double value) const;
  /// Collective: the mean over the ranks, in place; the same bits on all ranks.
  void mean(HostVector<float> values) const;
  /// Collective: the value of every rank, on every rank.
  [[nodiscard]] std::vector<double> gather(double value) const;

  /// Collective: runs `work` on every rank; where it throws on any, throws CollectiveError with that message on all.
  template <class Work>
  void together(const Work& work) const {
    halograd::together(comm_, work);
  }

  /// Collective: rank 0's text, on all ranks.
  [[nodiscard]] std::string broadcast(std::string text) const;

  /// Collective: throws CollectiveError, naming the first rank and line that differ, unless all ranks have rank 0's
  /// text.
  void require_same(const std::string& text, const std::string& what) const;

 private:
  MPI_Comm comm_;
  int rank_ = 0, ranks_ = 1, node_rank_ = 0, node_ranks_ = 1, nodes_ = 1;
  std::vector<int> node_of_rank_;
};

}  // namespace halograd
