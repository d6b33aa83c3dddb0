#include "mpi/communicator.hpp"

#include <algorithm>
#include <sstream>

#include "mpi/node_comm.hpp"
#include "mpi/wait.hpp"

namespace halograd {
namespace {

double reduce(MPI_Comm comm, double value, MPI_Op operation) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, operation, comm, &request);
  wait_politely(request);
  return value;
}

/// "line 3: 'epochs = 6' instead of 'epochs = 7'", or empty where the texts are equal.
std::string first_difference(const std::string& mine, const std::string& reference) {
  std::istringstream left(mine), right(reference);
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right) return "";
    if (!more_left) a.clear();
    if (!more_right) b.clear();
    if (a != b) return "line " + std::to_string(line) + ": '" + a + "' instead of '" + b + "'";
  }
}

}  // namespace

int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks_);
  const MPI_Comm node = node_comm(comm_);
  MPI_Comm_rank(node, &node_rank_);
  MPI_Comm_size(node, &node_ranks_);
  int lowest = rank_;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&lowest, 1, MPI_INT, 0, node, &request);
  wait_politely(request);
  for (const double rank : gather(lowest)) node_of_rank_.push_back(static_cast<int>(rank));
  nodes_ = static_cast<int>(sum(node_rank_ == 0 ? 1 : 0));
}

void Communicator::sum(double* values, int count) const {
  sum_over_ranks(comm_, values, count);
}

double Communicator::sum(double value) const {
  return reduce(comm_, value, MPI_SUM);
}

double Communicator::largest(double value) const {
  return reduce(comm_, value, MPI_MAX);
}

double Communicator::smallest(double value) const {
  return reduce(comm_, value, MPI_MIN);
}

void Communicator::mean(HostVector<float> values) const {
  // In double, a piece at a time: the mean of equal floats is then that float again.
  constexpr std::size_t piece = std::size_t{1} << 20U;
  std::vector<double> sums(std::min(piece, values.size()));
  for (std::size_t begin = 0; begin < values.size(); begin += piece) {
    float* const from = values.data() + begin;
    const std::size_t count = std::min(piece, values.size() - begin);
    std::copy(from, from + count, sums.begin());
    sum(sums.data(), static_cast<int>(count));
    for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<float>(sums[i] / ranks_);
  }
}

std::vector<double> Communicator::gather(double value) const {
  std::vector<double> values(static_cast<std::size_t>(ranks_));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&value, 1, MPI_DOUBLE, values.data(), 1, MPI_DOUBLE, comm_, &request);
  wait_politely(request);
  return values;
}

std::string Communicator::broadcast(std::string text) const {
  long length = static_cast<long>(text.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&length, 1, MPI_LONG, 0, comm_, &request);
  wait_politely(request);
  text.resize(static_cast<std::size_t>(length));
  MPI_Ibcast(text.data(), static_cast<int>(length), MPI_CHAR, 0, comm_, &request);
  wait_politely(request);
  return text;
}

void Communicator::require_same(const std::string& text, const std::string& what) const {
  const std::string difference = first_difference(text, broadcast(text));
  fail_together(comm_, difference.empty() ? ""
                                          : "rank " + std::to_string(rank_) + " was started with another " + what +
                                                " than rank 0: " + difference);
}

}  // namespace halograd
