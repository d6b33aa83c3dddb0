// No collective, barrier, fence or per-step lock in a step of neighbour averaging: this executable puts itself between
// halograd and MPI through MPI's profiling interface and counts.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "averagers/averager.hpp"
#include "kernels/error.hpp"
#include "mpi/communicator.hpp"
#include "tests/window/device_halos.hpp"
#include "window/halo_place.hpp"
#include "window/halo_window.hpp"
#include "window/port_window.hpp"

namespace {
int synchronising_calls = 0;
int messages_started = 0;  // which are counted above too
int put_calls = 0;
bool halos_stay_away = false;  // this MPI says that it has put what lies in device memory, and has not
}  // namespace

#define HALOGRAD_COUNTED(name, declared, passed) \
  int MPI_##name declared {                      \
    ++synchronising_calls;                       \
    return PMPI_##name passed;                   \
  }

extern "C" {
HALOGRAD_COUNTED(Barrier, (MPI_Comm comm), (comm))
HALOGRAD_COUNTED(Ibarrier, (MPI_Comm comm, MPI_Request* request), (comm, request))
HALOGRAD_COUNTED(Bcast, (void* data, int n, MPI_Datatype type, int root, MPI_Comm comm), (data, n, type, root, comm))
HALOGRAD_COUNTED(Ibcast, (void* data, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request),
                 (data, n, type, root, comm, request))
HALOGRAD_COUNTED(Reduce, (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
                 (in, out, n, type, op, root, comm))
HALOGRAD_COUNTED(Allreduce, (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
                 (in, out, n, type, op, comm))
HALOGRAD_COUNTED(Iallreduce,
                 (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request),
                 (in, out, n, type, op, comm, request))
HALOGRAD_COUNTED(Allgather,
                 (const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype out_type, MPI_Comm comm),
                 (in, n, type, out, m, out_type, comm))
HALOGRAD_COUNTED(Neighbor_allgather,
                 (const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype out_type, MPI_Comm comm),
                 (in, n, type, out, m, out_type, comm))
HALOGRAD_COUNTED(Alltoall,
                 (const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype out_type, MPI_Comm comm),
                 (in, n, type, out, m, out_type, comm))
HALOGRAD_COUNTED(Comm_dup, (MPI_Comm comm, MPI_Comm* copy), (comm, copy))
HALOGRAD_COUNTED(Win_fence, (int assertion, MPI_Win window), (assertion, window))
HALOGRAD_COUNTED(Win_lock, (int type, int rank, int assertion, MPI_Win window), (type, rank, assertion, window))
HALOGRAD_COUNTED(Win_lock_all, (int assertion, MPI_Win window), (assertion, window))
HALOGRAD_COUNTED(Win_unlock, (int rank, MPI_Win window), (rank, window))
HALOGRAD_COUNTED(Win_unlock_all, (MPI_Win window), (window))
HALOGRAD_COUNTED(Win_start, (MPI_Group group, int assertion, MPI_Win window), (group, assertion, window))
HALOGRAD_COUNTED(Win_complete, (MPI_Win window), (window))
HALOGRAD_COUNTED(Win_post, (MPI_Group group, int assertion, MPI_Win window), (group, assertion, window))
HALOGRAD_COUNTED(Win_wait, (MPI_Win window), (window))
HALOGRAD_COUNTED(Send, (const void* data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm),
                 (data, n, type, to, tag, comm))
HALOGRAD_COUNTED(Recv, (void* data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status),
                 (data, n, type, from, tag, comm, status))

int MPI_Isend(const void* data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++synchronising_calls;
  ++messages_started;
  return PMPI_Isend(data, n, type, to, tag, comm, request);
}

int MPI_Irecv(void* data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  ++synchronising_calls;
  ++messages_started;
  return PMPI_Irecv(data, n, type, from, tag, comm, request);
}

int MPI_Rput(const void* data, int n, MPI_Datatype type, int rank, MPI_Aint place, int m, MPI_Datatype out_type,
             MPI_Win window, MPI_Request* request) {
  ++put_calls;
  if (halos_stay_away && type == MPI_FLOAT) n = m = 0;
  return PMPI_Rput(data, n, type, rank, place, m, out_type, window, request);
}
}

namespace halograd::one_sided_mpi_test {
namespace {

class OneSided : public testing::TestWithParam<bool> {
 protected:
  OneSided() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  int rank_ = 0, ranks_ = 0;
};

TEST_P(OneSided, StepsOfTheWindowSynchroniseWithNobodyButTheNeighbours) {
  const Topology topology = make_topology(TopologyConfig{}, ranks_);
  const auto edges = static_cast<int>(topology.in_neighbours(rank_).size());
  synchronising_calls = 0;
  HaloWindow window(MPI_COMM_WORLD, topology, 1000, {{2, GetParam()}});
  EXPECT_GT(synchronising_calls, 0) << "the construction is collective: this test does not see halograd's MPI calls";

  const std::vector<float> weights(1000, 1.0F);
  synchronising_calls = put_calls = 0;
  for (std::int64_t version = 1; version <= 20; ++version) {
    window.put(version, HostVector<const float>(weights.data(), weights.size()));
    window.flush();
    for (int edge = 0; edge < edges; ++edge) window.wait(edge, version);
    for (int edge = 0; edge < edges; ++edge) window.release(edge, version);
  }
  EXPECT_EQ(synchronising_calls, 0);
  EXPECT_EQ(put_calls, 2 * 20 * (edges - window.stored_edges()));  // a ring has as many out- as in-edges
  Communicator(MPI_COMM_WORLD).barrier();
}

TEST_P(OneSided, StepsOfTheWindowInDeviceMemoryPutEachHaloAndSynchroniseWithNobodyElse) {
  if (!device_halos_work()) GTEST_SKIP() << no_device_halos;
  const Topology topology = make_topology(TopologyConfig{}, ranks_);
  const auto edges = static_cast<int>(topology.in_neighbours(rank_).size());
  HaloWindow::Options options{{2, GetParam()}};
  options.memory = HaloMemory::device;
  HaloWindow window(MPI_COMM_WORLD, topology, 1000, options);
  const int stored_times = GetParam() ? 0 : HaloWindow(MPI_COMM_WORLD, topology, 1000, {{2, false}}).stored_edges();
  const Buffer<float> weights("weights", 1000);
  synchronising_calls = put_calls = 0;
  for (std::int64_t version = 1; version <= 20; ++version) {
    window.put(version, HaloValues<const float>::on_device(weights));
    window.flush();
    for (int edge = 0; edge < edges; ++edge) window.wait(edge, version);
    for (int edge = 0; edge < edges; ++edge) window.release(edge, version);
  }
  EXPECT_EQ(synchronising_calls, 0);
  EXPECT_EQ(put_calls, 20 * (2 * edges - stored_times));  // halos, and times that are not stored
  Communicator(MPI_COMM_WORLD).barrier();
}

TEST(DeviceWindows, TheSelfTestFindsAnMpiThatDoesNotWriteDeviceMemory) {
  if (!device_halos_work()) GTEST_SKIP() << no_device_halos;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Topology topology = make_topology(TopologyConfig{}, ranks);
  const auto fault = [&]() -> std::string {
    try {
      require_device_windows(MPI_COMM_WORLD, topology, CommConfig(), 1000);
    } catch (const CollectiveError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault(), "");
  halos_stay_away = true;
  const std::string found = fault();
  halos_stay_away = false;
  EXPECT_EQ(fault(), "");
  if (ranks == 1) return;
  EXPECT_NE(found.find("the self-test of device windows failed on rank 0: 1000 of 1000 values from rank"),
            std::string::npos)
      << found;
}

TEST_P(OneSided, StepsOfThePortWindowSynchroniseWithNobodyButThePeers) {
  for (const std::string& kind : DynamicTopology::kinds()) {
    TopologyConfig config;
    config.kind = kind;
    const DynamicTopology topology(config, ranks_);
    synchronising_calls = 0;
    PortWindow window(MPI_COMM_WORLD, topology, 1000, 0, {2, GetParam()});
    EXPECT_GT(synchronising_calls, 0);
    const std::vector<float> values(1000, 1.0F);
    synchronising_calls = put_calls = 0;
    int sent = 0;
    for (std::int64_t step = 0; step < 20; ++step) {
      window.put(step, HostVector<const float>(values.data(), values.size()));
      window.flush();
      window.wait(step);
      window.release(step);
      sent += static_cast<int>(topology.at(step)->out[static_cast<std::size_t>(rank_)].size());
    }
    EXPECT_EQ(synchronising_calls, 0) << kind;
    if (GetParam()) {
      EXPECT_EQ(put_calls, 2 * sent) << kind;  // the halo and the number
    }
    Communicator(MPI_COMM_WORLD).barrier();
  }
}

TEST_P(OneSided, StepsOfTheNeighbourAveragerSynchroniseWithNobodyButTheNeighbours) {
  const Topology topology = make_topology(TopologyConfig{}, ranks_);
  for (const char* order : {"combine_then_adapt", "adapt_then_combine"}) {
    CommConfig transport;
    transport.force_put = GetParam();
    AveragerConfig config;
    config.order = order;
    const auto averager = make_averager({config, transport, topology, MPI_COMM_WORLD, 1000});
    const ExecutionSpace exec;
    const Buffer<float> weights("weights", 1000), gradient("gradient", 1000);
    synchronising_calls = 0;
    for (std::int64_t step = 0; step < 20; ++step) {
      averager->before_gradient(exec, step, weights);
      averager->before_update(exec, step, weights, gradient, 1.0 / ranks_);
      averager->after_update(exec, step, weights);
    }
    EXPECT_EQ(synchronising_calls, 0) << order;
    Communicator(MPI_COMM_WORLD).barrier();
  }
}

TEST_P(OneSided, FreeAveragersSynchroniseWithNobodyInStepsSnapshotsAndEndsOfEpochs) {
  const Topology topology = make_topology(TopologyConfig{}, ranks_);
  for (const char* name : {"push_sum", "fast", "ad_psgd"}) {
    CommConfig transport;
    transport.force_put = GetParam();
    AveragerConfig config;
    config.name = name;
    config.staleness = -1;
    AveragerContext context{config, transport, topology, MPI_COMM_WORLD, 1000};
    context.optimizer_step = [](const ExecutionSpace&, Vector<float>, Vector<const float>) {};
    context.restart_optimizer = [](const ExecutionSpace&) {};
    const auto averager = make_averager(context);
    const ExecutionSpace exec;
    const Buffer<float> weights("weights", 1000), gradient("gradient", 1000);
    synchronising_calls = messages_started = 0;
    for (std::int64_t step = 0; step < 20 + 10 * rank_; ++step) {
      averager->before_gradient(exec, step, weights);
      averager->before_update(exec, step, weights, gradient, 1.0 / ranks_);
      averager->after_update(exec, step, weights);
      if (step % 5 == 0) static_cast<void>(averager->state());
      if (step % 10 == 9) averager->after_epoch(exec, step / 10 + 1, weights, 1.0 / (rank_ + 1.0));
    }
    EXPECT_EQ(synchronising_calls, messages_started) << name;
    averager->settle(exec, weights);
    Communicator(MPI_COMM_WORLD).barrier();
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, OneSided, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "put" : "store"; });

}  // namespace
}  // namespace halograd::one_sided_mpi_test
