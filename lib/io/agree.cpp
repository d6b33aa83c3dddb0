#include "io/agree.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace halograd {

void await(MPI_Request& request) {
  auto pause = std::chrono::microseconds(0);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + std::chrono::microseconds(10), std::chrono::microseconds(200));
  }
}

void agree(MPI_Comm comm, const std::string& error) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const int mine = error.empty() ? ranks : rank;
  int first = ranks;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm, &request);
  await(request);
  if (first == ranks) return;
  std::string message = error;
  int length = static_cast<int>(message.size());
  MPI_Ibcast(&length, 1, MPI_INT, first, comm, &request);
  await(request);
  message.resize(static_cast<std::size_t>(length));
  MPI_Ibcast(message.data(), length, MPI_CHAR, first, comm, &request);
  await(request);
  throw Error(message);
}

}  // namespace halograd
