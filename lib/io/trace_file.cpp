#include "io/trace_file.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "kernels/error.hpp"
#include "mpi/wait.hpp"

namespace halograd {
namespace {

constexpr std::size_t piece = std::size_t{1} << 24U;  // bytes of a message

void send(MPI_Comm comm, const std::string& text) {
  auto length = static_cast<long>(text.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&length, 1, MPI_LONG, 0, 0, comm, &request);
  wait_politely(request);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const auto count = static_cast<int>(std::min(piece, text.size() - at));
    MPI_Isend(text.data() + at, count, MPI_CHAR, 0, 0, comm, &request);
    wait_politely(request);
  }
}

void receive(MPI_Comm comm, int from, std::ostream& file) {
  long length = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&length, 1, MPI_LONG, from, 0, comm, &request);
  wait_politely(request);
  std::string text;
  const auto all = static_cast<std::size_t>(length);
  for (std::size_t at = 0; at < all; at += piece) {
    text.resize(std::min(piece, all - at));
    MPI_Irecv(text.data(), static_cast<int>(text.size()), MPI_CHAR, from, 0, comm, &request);
    wait_politely(request);
    file << text;
  }
}

}  // namespace

void write_trace(MPI_Comm comm, const std::string& path, const std::string& events, const std::string& facts) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  MPI_Comm own = duplicate(comm);
  std::string error;
  if (rank == 0) {
    const std::string partial = path + ".partial";
    std::ofstream file(partial, std::ios::binary);
    file << "{\"displayTimeUnit\":\"ms\",\"otherData\":" << facts << ",\"traceEvents\":[\n" << events;
    for (int other = 1; other < ranks; ++other) {
      file << ",\n";
      receive(own, other, file);
    }
    file << "\n]}\n";
    file.close();
    if (!file || std::rename(partial.c_str(), path.c_str()) != 0) error = path + ": the trace cannot be written";
  } else {
    send(own, events);
  }
  MPI_Comm_free(&own);
  fail_together(comm, error);
}

}  // namespace halograd
