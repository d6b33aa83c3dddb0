#include "window/mail_window.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "mpi/communicator.hpp"
#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::mail_window_mpi_test {
namespace {

StepGraph graph_of(const std::string& kind, int ranks = all_ranks()) {
  TopologyConfig config;
  config.kind = kind;
  return step_graph(make_graph(config, ranks));
}

const std::vector<int>& in_neighbours(const StepGraph& graph) {
  return graph.in[static_cast<std::size_t>(this_rank())];
}

/// The number of a message from `rank`; that in its entry i differs for each message and each entry.
float payload(int rank, std::int64_t message, std::size_t i) {
  return random_uniform((static_cast<std::uint64_t>(rank) << 40U) + static_cast<std::uint64_t>(message), i);
}

void fill(std::vector<float>& values, std::int64_t message) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = payload(this_rank(), message, i);
}

HostVector<const float> view(const std::vector<float>& values) {
  return HostVector<const float>(values.data(), values.size());
}

/// Every now and then some microseconds, other in every call, to let sender and receiver meet in all phases.
void dawdle(std::uint64_t call) {
  const std::uint64_t bits = random_bits(static_cast<std::uint64_t>(this_rank()), call);
  if (bits % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits / 16 % 50));
}

double total(double mine) {
  return Communicator(MPI_COMM_WORLD).sum(mine);
}

/// What one rank reads: each message must be the one after the last of its edge, and whole until it is released.
class Reader {
 public:
  Reader(MailWindow& window, const StepGraph& graph)
      : window_(window), from_(in_neighbours(graph)), read_(from_.size()) {}

  void read_all() {
    for (std::size_t edge = 0; edge < from_.size(); ++edge) {
      const auto message = window_.receive(edge);
      if (!message) continue;
      wrong_ += window_.receive(edge) ? 1 : 0;  // nothing is read twice
      check(edge, *message);
      dawdle(static_cast<std::uint64_t>(++calls_));
      check(edge, *message);
      ++read_[edge];
      window_.release(edge);
    }
  }
  [[nodiscard]] double read() const {
    double sum = 0;
    for (const std::int64_t messages : read_) sum += static_cast<double>(messages);
    return sum;
  }
  [[nodiscard]] double wrong() const { return wrong_; }

 private:
  void check(std::size_t edge, const MailWindow::Message& message) {
    const std::int64_t expected = read_[edge] + 1;
    if (message.number != static_cast<double>(expected) + 0.5 || message.label != from_[edge]) ++wrong_;
    for (std::size_t i = 0; i < message.values.extent(0); ++i) {
      wrong_ += message.values(i) == payload(from_[edge], expected, i) ? 0 : 1;
    }
  }

  MailWindow& window_;
  std::vector<int> from_;
  std::vector<std::int64_t> read_;
  std::int64_t calls_ = 0;
  double wrong_ = 0;
};

class Mail : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  Mail() {
    options_.force_put = way_ != "store";
    options_.free_carrier = way_ == "put" ? Carrier::put : Carrier::send;
  }
  const StepGraph graph_ = graph_of(std::get<0>(GetParam()));
  const std::string way_ = std::get<1>(GetParam());
  TransportOptions options_;
};

TEST_P(Mail, NothingIsLostTornOrReadTwiceAtFullSpeed) {
  constexpr std::size_t length = 1501;
  options_.put_floats = 400;  // several pieces a message
  const int rounds = (way_ == "store" ? 30'000 : 2'500) / all_ranks();
  MailWindow window(MPI_COMM_WORLD, graph_, length, options_);
  Reader reader(window, graph_);
  std::vector<std::int64_t> sent(window.out_edges(), 0);
  std::vector<float> values(length);
  double messages = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t edge = 0; edge < window.out_edges(); ++edge) {
      if (!window.is_free(edge)) continue;
      fill(values, ++sent[edge]);
      window.send(edge, view(values), static_cast<double>(sent[edge]) + 0.5, this_rank());
      std::fill(values.begin(), values.end(), -1.0F);  // the window has its own copy
      ++messages;
    }
    dawdle(static_cast<std::uint64_t>(round) + 1'000'000);
    reader.read_all();
  }
  window.drain([&] { reader.read_all(); });
  EXPECT_EQ(total(reader.wrong()), 0);
  EXPECT_EQ(total(reader.read()), total(messages));
  EXPECT_EQ(window.bytes_sent(), static_cast<std::int64_t>(messages * length * sizeof(float)));
  for (std::size_t edge = 0; edge < window.out_edges(); ++edge) EXPECT_TRUE(window.is_free(edge));
  for (std::size_t edge = 0; edge < window.in_edges(); ++edge) EXPECT_FALSE(window.receive(edge));
  std::int64_t counted = 0;
  for (const EdgeRecord& record : window.edges().take()) counted += record.halos;
  EXPECT_EQ(static_cast<double>(counted), reader.read());
  EXPECT_GE(messages, static_cast<double>(window.out_edges()));
}

TEST_P(Mail, AFullMailboxTakesNothingAndNobodyWaitsForItsReader) {
  constexpr std::size_t length = 100;
  MailWindow window(MPI_COMM_WORLD, graph_, length, options_);
  Reader reader(window, graph_);
  std::vector<float> values(length);
  const auto send_where_free = [&](std::int64_t message) {
    std::size_t sent = 0;
    fill(values, message);
    for (std::size_t edge = 0; edge < window.out_edges(); ++edge) {
      if (!window.is_free(edge)) continue;
      window.send(edge, view(values), static_cast<double>(message) + 0.5, this_rank());
      ++sent;
    }
    return sent;
  };
  EXPECT_EQ(send_where_free(1), window.out_edges());
  EXPECT_EQ(send_where_free(2), 0U);  // nobody reads: a message fits in each, and nobody waits for more
  for (std::size_t edge = 0; edge < window.out_edges(); ++edge) {
    EXPECT_FALSE(window.is_free(edge));
    EXPECT_THROW(window.send(edge, view(values)), Error);
  }
  Communicator(MPI_COMM_WORLD).barrier();  // before anybody reads
  const double waited = window.wait_seconds();
  const PolitePause time;
  window.drain([&] { reader.read_all(); });
  EXPECT_LE(window.wait_seconds() - waited, time.seconds());  // no wait counts twice
  EXPECT_EQ(send_where_free(2), window.out_edges());
  window.drain([&] { reader.read_all(); });
  EXPECT_EQ(total(reader.wrong()), 0);
  EXPECT_EQ(reader.read(), 2.0 * static_cast<double>(window.in_edges()));
}

TEST_P(Mail, AMessageIsNotReceivedBeforeTheInjectedLatency) {
  options_.inject.latency_us = 2000;
  MailWindow window(MPI_COMM_WORLD, graph_, 10, options_);
  const std::vector<float> values(10);
  for (std::size_t edge = 0; edge < window.out_edges(); ++edge) window.send(edge, view(values));
  window.drain([&] {
    for (std::size_t edge = 0; edge < window.in_edges(); ++edge) {
      if (window.receive(edge)) window.release(edge);
    }
  });
  for (const EdgeRecord& record : window.edges().take()) {
    EXPECT_EQ(record.halos, 1);
    EXPECT_EQ(record.staleness[0], 1);
    EXPECT_GE(record.least_delay, 2e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, Mail,
                         testing::Combine(testing::Values("ring", "exponential", "star"),
                                          testing::Values("store", "put", "send")),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" + std::get<1>(instance.param);
                         });

TEST(MailWindow, RefusesOtherLengthsAndReleasesOfNothing) {
  MailWindow window(MPI_COMM_WORLD, graph_of("ring"), 4, {});
  if (all_ranks() == 1) return;
  const std::vector<float> short_values(3);
  EXPECT_THROW(window.send(0, view(short_values)), Error);
  EXPECT_THROW(window.release(0), Error);
}

TEST(MailWindow, RefusesOnAllRanksWhatOneRankHasWrong) {
  const StepGraph graph = graph_of("ring");
  EXPECT_THROW(MailWindow(MPI_COMM_WORLD, graph_of("ring", all_ranks() + 1), 4, {}), Error);
  if (all_ranks() == 1) return;
  EXPECT_THROW(MailWindow(MPI_COMM_WORLD, graph, this_rank() == 0 ? 5 : 4, {}), Error);
  TransportOptions other;
  if (this_rank() == 0) other.free_carrier = Carrier::put;
  EXPECT_THROW(MailWindow(MPI_COMM_WORLD, graph, 4, other), Error);
  if (all_ranks() == 2) return;  // two ranks have one graph
  EXPECT_THROW(MailWindow(MPI_COMM_WORLD, this_rank() == 0 ? graph_of("line") : graph_of("complete"), 4, {}), Error);
}

}  // namespace
}  // namespace halograd::mail_window_mpi_test
