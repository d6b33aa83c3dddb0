#include "mpi/node_split.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/placement.hpp"
#include "mpi/shared_file.hpp"

namespace halograd {
namespace {

/// A number that ranks of one host have in common. Slurm's name counts too, since several of its nodes may be one host.
std::uint64_t own_host() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return std::hash<std::string>()(std::string(name.data()) + ' ' + node_name());
}

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

/// The ranks of one host, by its name: for each rank the lowest of them.
std::vector<int> ranks_by_host(const Communicator& comm) {
  const std::vector<std::uint64_t> hosts = comm.gather(own_host());
  std::vector<int> lowest(hosts.size());
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    std::size_t first = 0;
    while (hosts[first] != hosts[rank]) ++first;
    lowest[rank] = static_cast<int>(first);
  }
  return lowest;
}

/// Whether all of them find a file of the first one. Containers may give processes of a host a /dev/shm of their own.
bool share_files(const Communicator& host) {
  std::optional<SharedFile> file;
  if (host.rank() == 0) file.emplace();
  const SharedFile opened(host.broadcast(file ? file->key() : 0));
  return host.smallest(opened.is_open() ? 1 : 0) == 1;
}

}  // namespace

MPI_Comm split_by_memory(const Communicator& comm) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm.handle(), MPI_COMM_TYPE_SHARED, comm.rank(), MPI_INFO_NULL, &node);
  const int together = comm.largest(Communicator(node).ranks());
  if (comm.ranks() == 1 || together > 1 || comm.largest(number_in("MPIR_CVAR_NOLOCAL")) != 0) return node;

  const std::vector<int> host_of_rank = ranks_by_host(comm);
  const bool one_host = std::count(host_of_rank.begin(), host_of_rank.end(), 0) == comm.ranks();
  const int cliques = comm.largest(number_in("MPIR_CVAR_NUM_CLIQUES"));
  const int color = one_host && cliques > 1 ? Communicator(MPI_COMM_WORLD).rank() % cliques
                                            : host_of_rank[static_cast<std::size_t>(comm.rank())];
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split(comm.handle(), color, comm.rank(), &host);
  MPI_Comm_free(share_files(host) ? &node : &host);
  return node != MPI_COMM_NULL ? node : host;
}

}  // namespace halograd
