#include "mpi/node_comm.hpp"

#include <memory>

namespace halograd {
namespace {

struct FreeComm {
  void operator()(MPI_Comm* comm) const {
    MPI_Comm_free(comm);
    delete comm;
  }
};

}  // namespace

MPI_Comm node_comm(MPI_Comm comm) {
  return *kept_with(comm, [comm] {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    std::unique_ptr<MPI_Comm, FreeComm> node(new MPI_Comm(MPI_COMM_NULL));
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, node.get());
    return node;
  });
}

}  // namespace halograd
