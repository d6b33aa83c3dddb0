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
}

TEST(NetworkTrial, GoesFromEachNodeToTheNextAndBackToTheFirst) {
  const Communicator comm(MPI_COMM_WORLD);
  const NetworkTrial trial = try_network(comm);
  EXPECT_EQ(trial.put_fault, "");
  if (comm.nodes() == 1) {
    EXPECT_TRUE(trial.links.empty());
    return;
  }
  EXPECT_EQ(trial.links.size(), static_cast<std::size_t>(comm.nodes()));
  std::set<int> from, to;
  for (const LinkSpeed& link : trial.links) {
    from.insert(link.from);
    to.insert(link.to);
    EXPECT_NE(link.from, link.to);
    expect_possible(link.speed);
    EXPECT_GT(link.speed.send_bandwidth, 1e3);
    EXPECT_EQ(comm.smallest(link.speed.bandwidth), comm.largest(link.speed.bandwidth));
  }
  EXPECT_EQ(from, std::set<int>(comm.node_of_rank().begin(), comm.node_of_rank().end()));
  EXPECT_EQ(from, to);
}

TEST(NetworkTrial, FindsPutsSlowBelowHalfOfMessages) {
  EXPECT_TRUE(are_puts_slow({1e-6, 49, 100}));
  EXPECT_TRUE(are_puts_slow({1e-6, 0, 100}));
  EXPECT_FALSE(are_puts_slow({1e-6, 51, 100}));
  EXPECT_FALSE(are_puts_slow({1e-6, 200, 100}));
}

NetworkTrial trial_with(double put, double send, const std::string& put_fault = "") {
  NetworkTrial trial;
  trial.links = {{0, 2, {1e-6, 100e6, 100e6}}, {2, 0, {1e-6, put, send}}};
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
    EXPECT_EQ(choice.trial.links.size(), 2U);
    EXPECT_EQ(choose_transport(config, {}).transport, asked);
  }
}

TEST(TransportChoice, IsMessagesWherePutsAreSlowOrDoNotWork) {
  CommConfig config;
  const TransportChoice slow = choose_transport(config, trial_with(49e6, 100e6));
  EXPECT_EQ(slow.transport, sending_transport().name);
  EXPECT_EQ(slow.reason, "MPI_Put reaches 49 MB/s from rank 2 to rank 0, messages 100");
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
