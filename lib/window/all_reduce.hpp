#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "kernels/types.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// Sums of floats over all ranks of a communicator, which go on while the ranks compute. All ranks get the same bits,
/// and the same ones in each run.
class AllReduce {
 public:
  explicit AllReduce(const Communicator& comm) : rank_(comm.rank()) {}
  virtual ~AllReduce() = default;
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;

  /// By all ranks in the same order and with the same lengths: begins to replace `values`, which nobody else touches
  /// until then, by their sum over all ranks. Returns a number to ask has_ended() with.
  virtual std::int64_t start(HostVector<float> values) = 0;
  /// Moves on what is under way, without waiting. Whether that sum, and with it all that were started before it, is
  /// complete.
  virtual bool has_ended(std::int64_t number) = 0;
  void move_on() { has_ended(0); }
  /// Whose message the oldest sum that is under way waits for. None: no sum is, or MPI adds it up, which does not say.
  [[nodiscard]] virtual std::optional<int> awaited_rank() = 0;
  /// Waits, giving up the core, until `is_done`, which moves sums on. A wait of more than `report_seconds` is reported
  /// once on stderr, with awaited_rank(). Returns the seconds.
  double wait_until(const std::function<bool()>& is_done, double report_seconds);

 private:
  int rank_;
};

/// What values are on their way: floats, or the upper halves of floats, rounded to nearest even each time that a
/// partial sum is sent. Additions are of floats.
enum class Travel { floats, bf16 };

/// Bytes that a rank sends for such a sum of so many values, by a ring or another algorithm that sends least. (MPI
/// chooses its algorithm, and does not say which.)
std::int64_t all_reduce_bytes(int ranks, std::size_t length, Travel travel = Travel::floats);

/// By MPI_Iallreduce. Collective.
std::unique_ptr<AllReduce> make_mpi_all_reduce(const Communicator& comm);

/// By a ring (Patarasuk and Yuan, 2009): of P parts of the values, each goes from rank to rank and is added to there,
/// until one rank has its sum, which then goes round in the same way. So a rank sends 2 (P - 1) / P times the values,
/// the least that is possible, all of them to one other rank; ranks of a node stand beside each other in the ring, so
/// that values enter and leave it once. A ProgressThread moves it on while this rank computes. Collective.
std::unique_ptr<AllReduce> make_ring_all_reduce(const Communicator& comm, Travel travel = Travel::floats);

/// Each sum by the ring where its values are enough for the 2 (P - 1) messages to be long, and by MPI, as floats,
/// elsewhere. Collective.
std::unique_ptr<AllReduce> make_all_reduce_by_length(const Communicator& comm, Travel travel = Travel::floats);

/// Floats by MPI where all ranks are on one node, by length otherwise. Collective.
std::unique_ptr<AllReduce> make_all_reduce(const Communicator& comm, Travel travel = Travel::floats);

}  // namespace halograd
