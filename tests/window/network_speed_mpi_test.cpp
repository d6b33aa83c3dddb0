#include "window/network_speed.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/error.hpp"
#include "tests/mpi/ranks.hpp"
#include "window/transport_choice.hpp"
#include "window/transport_options.hpp"

namespace halograd::network_speed_mpi_test {
namespace {

void expect_possible(const NetworkSpeed& speed) {
  EXPECT_GT(speed.latency, 0);
  EXPECT_LT(speed.latency, 10);
  EXPECT_GT(speed.bandwidth, 1e3);
  EXPECT_LT(speed.bandwidth, 1e13);
}

TEST(NetworkSpeed, OfTheFirstAndTheLastRankIsTheSameForAll) {
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.ranks() == 1) {
    EXPECT_THROW(measure_network_speed(comm), Error);
    return;
  }
  const NetworkSpeed speed = measure_network_speed(comm);
  expect_possible(speed);
  EXPECT_EQ(comm.smallest(speed.latency), comm.largest(speed.latency));
  EXPECT_EQ(comm.smallest(speed.bandwidth), comm.largest(speed.bandwidth));
  EXPECT_GE(speed.transport, 0);
  EXPECT_LT(speed.transport, 1e-3);
  EXPECT_EQ(comm.smallest(speed.transport), comm.largest(speed.transport));
}

TEST(NetworkTrial, IsOfTheFirstRankOfEachNode) {
  const Communicator comm(MPI_COMM_WORLD);
  const NetworkTrial trial = try_network(comm);
  EXPECT_EQ(trial.put_fault, "");
  if (comm.nodes() == 1) {
    EXPECT_TRUE(trial.nodes.empty());
    return;
  }
  EXPECT_EQ(trial.nodes.size(), static_cast<std::size_t>(comm.nodes()));
  std::set<int> first_ranks;
  for (const NodeSpeed& node : trial.nodes) {
    first_ranks.insert(node.rank);
    expect_possible(node.speed);
    EXPECT_GT(node.speed.send_bandwidth, 1e3);
    EXPECT_EQ(comm.smallest(node.speed.bandwidth), comm.largest(node.speed.bandwidth));
  }
  EXPECT_EQ(first_ranks, std::set<int>(comm.node_of_rank().begin(), comm.node_of_rank().end()));
}

TEST(NetworkTrial, FindsPutsSlowBelowHalfOfMessages) {
  EXPECT_TRUE(are_puts_slow({1e-6, 49, 100}));
  EXPECT_TRUE(are_puts_slow({1e-6, 0, 100}));
  EXPECT_FALSE(are_puts_slow({1e-6, 51, 100}));
  EXPECT_FALSE(are_puts_slow({1e-6, 200, 100}));
}

NetworkTrial trial_with(double put, double send, const std::string& put_fault = "") {
  NetworkTrial trial;
  trial.nodes = {{0, {1e-6, 100e6, 100e6}}, {2, {1e-6, put, send}}};
  trial.put_fault = put_fault;
  return trial;
}

TEST(TransportChoice, IsWhatIsAskedForWhereThatWorks) {
  CommConfig config;
  for (const char* asked : {"auto", "put", "send"}) {
    config.transport = asked;
    const TransportChoice choice = choose_transport(config, trial_with(51e6, 100e6));
    EXPECT_EQ(choice.transport, asked);
    EXPECT_EQ(choice.reason, "");
    EXPECT_EQ(choice.trial.nodes.size(), 2U);
    EXPECT_EQ(choose_transport(config, {}).transport, asked);
  }
}

TEST(TransportChoice, IsMessagesWherePutsAreSlowOrDoNotWork) {
  CommConfig config;
  const TransportChoice slow = choose_transport(config, trial_with(49e6, 100e6));
  EXPECT_EQ(slow.transport, sending_transport().name);
  EXPECT_EQ(slow.reason, "MPI_Put reaches 49 MB/s from rank 2, messages 100");
  const TransportChoice broken = choose_transport(config, trial_with(0, 100e6, "bytes differ"));
  EXPECT_EQ(broken.transport, sending_transport().name);
  EXPECT_EQ(broken.reason, "bytes differ");
  config.progress_us = 0;
  EXPECT_THROW(choose_transport(config, trial_with(49e6, 100e6)), Error);
  config.transport = "put";
  EXPECT_EQ(choose_transport(config, trial_with(49e6, 100e6)).transport, "put");  // as was asked for
  EXPECT_THROW(choose_transport(config, trial_with(0, 100e6, "bytes differ")), Error);
  config.transport = "send";
  EXPECT_EQ(choose_transport(config, trial_with(0, 100e6, "bytes differ")).transport, "send");
}

TEST(TransportChoice, HasPiecesWhereALinkIsSlow) {
  CommConfig config;
  EXPECT_EQ(choose_transport(config, {}).piece_kb, 0);
  EXPECT_EQ(choose_transport(config, trial_with(31e6, 40e6)).piece_kb, 0);
  EXPECT_EQ(choose_transport(config, trial_with(29e6, 40e6)).piece_kb, 0);
  EXPECT_EQ(choose_transport(config, trial_with(29e6, 29e6)).piece_kb, piece_kb_of_slow_links);
  config.piece_kb = 7;  // as was asked for
  EXPECT_EQ(choose_transport(config, trial_with(29e6, 29e6)).piece_kb, 7);
  EXPECT_EQ(transport_options(config).put_floats, 7U * 1024 / sizeof(float));
}

TEST(TransportOptions, FollowFromTheTransport) {
  const auto carriers = [](const char* transport) {
    CommConfig config;
    config.transport = transport;
    const TransportOptions options = transport_options(config);
    return std::pair(options.carrier, options.free_carrier);
  };
  EXPECT_EQ(carriers("auto"), std::pair(Carrier::put, Carrier::send));
  EXPECT_EQ(carriers("put"), std::pair(Carrier::put, Carrier::put));
  EXPECT_EQ(carriers("send"), std::pair(Carrier::send, Carrier::send));
  EXPECT_EQ(carriers(sending_transport().name), carriers("send"));
  EXPECT_THROW(carriers("get"), Error);
}

}  // namespace
}  // namespace halograd::network_speed_mpi_test
