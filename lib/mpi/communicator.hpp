#pragma once

#include <mpi.h>

#include <cstddef>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/types.hpp"
#include "mpi/unwinding.hpp"

namespace halograd {

class OwnedComm;

template <class T>
inline constexpr bool is_span = false;
template <class T, std::size_t extent>
inline constexpr bool is_span<std::span<T, extent>> = true;
/// A type whose bytes are its value, so that MPI may carry it.
template <class T>
concept Carried = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !is_span<T>;
/// A type that MPI adds up and compares.
template <class T>
concept Reduced = std::is_arithmetic_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

/// The MPI datatype of a number.
template <Reduced T>
MPI_Datatype mpi_type() {
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? MPI_FLOAT : MPI_DOUBLE;
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 4 ? MPI_INT32_T : MPI_INT64_T;
  } else {
    return sizeof(T) == 4 ? MPI_UINT32_T : MPI_UINT64_T;
  }
}

/// The ranks of a job or of a part of it. Copies stand for the same MPI communicator, which somebody else owns and
/// which must outlive them; OwnedComm owns one. Every other function than the first three, send() and receive() is
/// collective over these ranks, and gives up the core while it waits. Lengths and roots must be the same on all ranks.
class Communicator {
 public:
  /// Not collective.
  Communicator(MPI_Comm comm);

  [[nodiscard]] MPI_Comm handle() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  /// The ranks that share memory with this one, in the same order. This and the next four are collective only the first
  /// time that one of them is called: what they need is kept with the MPI communicator and freed with it.
  [[nodiscard]] const Communicator& node() const;
  [[nodiscard]] int node_rank() const { return node().rank(); }
  [[nodiscard]] int node_ranks() const { return node().ranks(); }
  [[nodiscard]] int nodes() const;
  /// For each rank, the lowest rank that it shares memory with.
  [[nodiscard]] const std::vector<int>& node_of_rank() const;

  /// The ranks that come with the same `color`, in the order of `key` and then of their rank here.
  [[nodiscard]] OwnedComm split(int color, int key = 0) const;

  /// What ranks have stored before it in memory that they share, others load after it.
  void barrier() const;

  /// Reductions, in place or of one value; the same result on all ranks.
  template <Reduced T>
  void sum(std::span<T> values) const {
    reduce(values.data(), values.size(), mpi_type<T>(), MPI_SUM);
  }
  template <Reduced T>
  void largest(std::span<T> values) const {
    reduce(values.data(), values.size(), mpi_type<T>(), MPI_MAX);
  }
  template <Reduced T>
  void smallest(std::span<T> values) const {
    reduce(values.data(), values.size(), mpi_type<T>(), MPI_MIN);
  }
  template <Reduced T>
  [[nodiscard]] T sum(T value) const {
    sum(std::span(&value, 1));
    return value;
  }
  template <Reduced T>
  [[nodiscard]] T largest(T value) const {
    largest(std::span(&value, 1));
    return value;
  }
  template <Reduced T>
  [[nodiscard]] T smallest(T value) const {
    smallest(std::span(&value, 1));
    return value;
  }
  /// The mean over the ranks, in place; the same bits on all ranks.
  void mean(HostVector<float> values) const;
  /// The mean on rank 0 (others get nothing), the same bits whenever it is called with the same values: each rank sums
  /// its share of the positions in double, in the order of the ranks, whatever MPI's reductions would do.
  [[nodiscard]] std::vector<float> mean_on_root(HostVector<const float> values) const;

  /// The value of every rank, or the values one rank after the other, on every rank.
  template <Carried T>
  [[nodiscard]] std::vector<T> gather(const T& value) const {
    return gather(std::span(&value, 1));
  }
  template <class T>
  [[nodiscard]] std::vector<std::remove_const_t<T>> gather(std::span<T> values) const {
    std::vector<std::remove_const_t<T>> all(values.size() * static_cast<std::size_t>(ranks_));
    gather_bytes(values.data(), values.size(), sizeof(T), all.data());
    return all;
  }
  /// The same on rank 0 alone; others get nothing.
  template <Carried T>
  [[nodiscard]] std::vector<T> gather_on_root(const T& value) const {
    return gather_on_root(std::span(&value, 1));
  }
  template <class T>
  [[nodiscard]] std::vector<std::remove_const_t<T>> gather_on_root(std::span<T> values) const {
    std::vector<std::remove_const_t<T>> all(rank_ == 0 ? values.size() * static_cast<std::size_t>(ranks_) : 0);
    gather_bytes_on_root(values.data(), values.size(), sizeof(T), all.data());
    return all;
  }
  /// The values of all ranks, one rank after the other, on rank 0; each rank comes with as many as it likes.
  template <Carried T>
  [[nodiscard]] std::vector<T> join_on_root(const std::vector<T>& values) const {
    const std::vector<std::size_t> counts = gather_on_root(values.size());
    if (rank_ != 0) {
      send(std::span(values), 0);
      return {};
    }
    std::vector<T> all = values;
    all.resize(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    std::size_t begin = counts[0];
    for (int from = 1; from < ranks_; ++from) {
      const std::size_t count = counts[static_cast<std::size_t>(from)];
      receive(std::span(all).subspan(begin, count), from);
      begin += count;
    }
    return all;
  }

  /// What rank `root` has, on all ranks: in place, a value, or a text or vector of any length.
  template <Carried T>
  void broadcast(std::span<T> values, int root = 0) const {
    broadcast_bytes(values.data(), values.size_bytes(), root);
  }
  template <Carried T>
  [[nodiscard]] T broadcast(T value, int root = 0) const {
    broadcast(std::span(&value, 1), root);
    return value;
  }
  [[nodiscard]] std::string broadcast(std::string text, int root = 0) const;
  template <Carried T>
  [[nodiscard]] std::vector<T> broadcast(std::vector<T> values, int root = 0) const {
    values.resize(broadcast(values.size(), root));
    broadcast(std::span(values), root);
    return values;
  }

  /// Not collective: from one rank to another, which receives as many values.
  template <Carried T>
  void send(std::span<const T> values, int to) const {
    send_bytes(values.data(), values.size_bytes(), to);
  }
  template <Carried T>
  void receive(std::span<T> values, int from) const {
    receive_bytes(values.data(), values.size_bytes(), from);
  }

  /// Not collective: sends to one rank while it receives from another; MPI_PROC_NULL: neither, and no values.
  template <Carried T>
  void exchange(std::span<const T> out, int to, std::span<T> in, int from) const {
    exchange_bytes(out.data(), out.size_bytes(), to, in.data(), in.size_bytes(), from);
  }

  /// Throws CollectiveError on all ranks where any rank comes with a message that is not empty: that of the lowest such
  /// rank. A rank that threw alone would leave the others waiting for it.
  /// `foreign`: where the message comes from.
  void fail_together(const std::string& message, Foreign foreign = Foreign::no_rank) const;
  /// Runs `work`, which is not collective, on every rank; where it throws on any, throws CollectiveError with that
  /// message on all.
  template <class Work>
  void together(const Work& work) const {
    pass_on<std::exception>(work);
  }
  /// Runs `work`, which is collective over parts of these ranks, on every rank; where it throws CollectiveError on any,
  /// throws that on all. Other exceptions are thrown on: the rank's part waits for it, and only an abort ends that.
  template <class Work>
  void together_in_parts(const Work& work) const {
    pass_on<CollectiveError>(work);
  }
  /// Throws CollectiveError, naming the first rank and line that differ, unless all ranks have rank 0's text.
  void require_same(const std::string& text, const std::string& what) const;

 protected:
  Communicator() = default;
  MPI_Comm comm_ = MPI_COMM_NULL;

 private:
  /// Runs `work`, and throws on all ranks where it throws this on any.
  template <class Thrown, class Work>
  void pass_on(const Work& work) const {
    std::string message;
    Foreign foreign = Foreign::no_rank;
    try {
      work();
    } catch (const Thrown& exception) {
      message = message_of(exception);
      foreign = foreign_of(exception);
    }
    fail_together(message, foreign);
  }
  void reduce(void* values, std::size_t count, MPI_Datatype type, MPI_Op operation) const;
  void gather_bytes(const void* values, std::size_t count, std::size_t bytes, void* all) const;
  void gather_bytes_on_root(const void* values, std::size_t count, std::size_t bytes, void* all) const;
  void broadcast_bytes(void* values, std::size_t bytes, int root) const;
  void send_bytes(const void* values, std::size_t bytes, int to) const;
  void receive_bytes(void* values, std::size_t bytes, int from) const;
  void exchange_bytes(const void* out, std::size_t out_bytes, int to, void* in, std::size_t in_bytes, int from) const;

  int rank_ = 0, ranks_ = 1;
};

/// A communicator that is freed with this object, which is collective; while an exception unwinds this rank alone, it
/// is left to the abort that follows.
class OwnedComm : public Communicator {
 public:
  /// Collective: a duplicate, so that messages and collective calls on it meet no others.
  explicit OwnedComm(const Communicator& comm);
  /// Takes over one that MPI has made; not collective.
  static OwnedComm taken(MPI_Comm comm);
  ~OwnedComm();
  OwnedComm(const OwnedComm&) = delete;
  OwnedComm& operator=(const OwnedComm&) = delete;

 private:
  struct Taken {
    MPI_Comm comm;
  };
  explicit OwnedComm(Taken taken) : Communicator(taken.comm) {}

  Unwinding unwinding_;
};

}  // namespace halograd
