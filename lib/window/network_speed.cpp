#include "window/network_speed.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/error.hpp"
#include "kernels/peak.hpp"
#include "window/cache_line.hpp"
#include "window/halo_transport.hpp"
#include "window/progress_thread.hpp"
#include "window/transport_options.hpp"

namespace halograd {
namespace {

constexpr int round_trips = 50;
constexpr int least_exchanges = 5;
constexpr std::size_t first_floats = std::size_t{1} << 14U, last_floats = std::size_t{1} << 22U;
constexpr double long_enough = 20e-3, trial_seconds = 100e-3;  // an exchange, and all with one carrier
constexpr double compared_seconds = 1;                         // of computing beside exchanges

/// Ranks in a circle, each of which exchanges with the next and the former one.
class Circle {
 public:
  explicit Circle(const Communicator& comm)
      : comm_(comm),
        next_((comm.rank() + 1) % comm.ranks()),
        former_((comm.rank() + comm.ranks() - 1) % comm.ranks()) {}

  /// Seconds that a number takes to the next rank: half of the shortest round trip.
  [[nodiscard]] double latency() const {
    double shortest = std::numeric_limits<double>::max(), number = 0;
    const auto send = [&](int to) { comm_.send(std::span<const double>(&number, 1), to); };
    const auto receive = [&](int from) { comm_.receive(std::span(&number, 1), from); };
    for (int i = 0; i < round_trips; ++i) {
      const double start = MPI_Wtime();
      send(next_);
      receive(former_);
      send(former_);
      receive(next_);
      shortest = std::min(shortest, MPI_Wtime() - start);
    }
    return shortest / 2;
  }

  /// Bytes per second from this rank to its neighbours, in exchanges that get longer until they take long enough. Of
  /// the longest ones the fastest counts: others may have met other work of the machine, and short ones only fill
  /// buffers. Throws CollectiveError where other values arrive than were sent, or where the carrier does not work.
  [[nodiscard]] double bandwidth(Carrier carrier) const {
    std::vector<float> values;
    comm_.together([&] { values.resize(last_floats); });
    std::string difference;
    double fastest = 0;
    {  // the transport goes before an exception may
      HaloTransport transport(comm_, inboxes * inbox_bytes, forced(), carrier);
      const std::vector<Way> ways = ways_of(transport);
      std::size_t floats = first_floats;
      double spent = 0;
      for (std::int64_t round = 0;
           fastest == 0 || round < least_exchanges || (spent < trial_seconds && floats < last_floats); ++round) {
        fill(std::span(values).first(floats), comm_.rank(), round);
        comm_.barrier();
        const double start = MPI_Wtime();
        begin_exchange(transport, ways, HostVector<const float>(values.data(), floats));
        end_exchange(transport, ways, round + 1);
        const double seconds = MPI_Wtime() - start;
        for (const Way& way : ways) {
          fill(std::span(values).first(floats), way.sender, round);
          const HostVector<const float> came = transport.values(values_in(way.inbox), floats);
          if (!std::equal(came.data(), came.data() + floats, values.begin())) difference = fault(way.sender, carrier);
        }
        if (comm_.largest(difference.empty() ? 0 : 1) == 1) break;
        fastest = std::max(fastest, static_cast<double>(ways.size() * floats * sizeof(float)) / seconds);
        const double slowest = comm_.largest(seconds);
        spent += slowest;
        if (slowest >= long_enough || floats == last_floats) continue;
        floats *= 2;
        fastest = 0;
      }
    }
    comm_.fail_together(difference);
    return fastest;
  }

  /// NetworkSpeed::transport: computes twice as long as an exchange lasts, in turn alone and beside one, which the
  /// thread of a training keeps going. Medians, because the machine may have other work. `bandwidth`: of an exchange.
  [[nodiscard]] double transport(double bandwidth) const {
    bandwidth = comm_.smallest(bandwidth);
    TransportOptions options = forced();
    if (bandwidth < 1e6 * slow_link_mb) options.put_floats = 1024 * piece_kb_of_slow_links / sizeof(float);
    HaloTransport transport(comm_, inboxes * inbox_bytes, options, Carrier::put);
    const std::vector<Way> ways = ways_of(transport);
    const ProgressThread progress(comm_, CommConfig().progress_us);
    const double most = bandwidth * trial_seconds / static_cast<double>(ways.size() * sizeof(float));
    const std::vector<float> values(std::clamp(static_cast<std::size_t>(most), first_floats, last_floats));
    const double bytes = static_cast<double>(ways.size() * values.size() * sizeof(float)),
                 lasts = 2 * bytes / bandwidth;
    const auto compute = [&] { return measure_passes(ExecutionSpace(), [&](double spent) { return spent >= lasts; }); };
    std::vector<double> lost(std::max(least_exchanges, static_cast<int>(compared_seconds / lasts)));  // shares
    for (std::size_t round = 0; round < lost.size(); ++round) {
      comm_.barrier();
      const double alone = compute();
      comm_.barrier();
      begin_exchange(transport, ways, HostVector<const float>(values.data(), values.size()));
      lost[round] = 1 - compute() / alone;
      end_exchange(transport, ways, static_cast<std::int64_t>(round) + 1);
    }
    const auto median = lost.begin() + static_cast<std::ptrdiff_t>(lost.size() / 2);
    std::nth_element(lost.begin(), median, lost.end());
    return std::max(0.0, comm_.sum(*median) / comm_.ranks() * lasts / bytes);
  }

 private:
  // A rank has an inbox for what its former one sends, and one for the next one's: a counter, then values.
  static constexpr std::size_t inboxes = 2, inbox_bytes = cache_line + last_floats * sizeof(float);
  static constexpr std::size_t values_in(std::size_t inbox) { return inbox * inbox_bytes + cache_line; }
  /// To one neighbour, and from the other.
  struct Way {
    HaloTransport::Peer& to;
    const HaloTransport::Peer& from;
    int sender;
    std::size_t inbox;  ///< in which what it sends arrives, as does what this rank sends
  };

  static TransportOptions forced() {
    TransportOptions options;
    options.force_put = true;
    return options;
  }

  /// Collective.
  [[nodiscard]] std::vector<Way> ways_of(HaloTransport& transport) const {
    std::vector<Way> ways{{transport.peer(next_), transport.peer(former_), former_, 0}};
    if (next_ != former_) ways.push_back({transport.peer(former_), transport.peer(next_), next_, 1});
    transport.start();
    return ways;
  }

  /// Sends to all neighbours what they send to this rank, as a window does.
  static void begin_exchange(HaloTransport& transport, const std::vector<Way>& ways, HostVector<const float> values) {
    for (const Way& way : ways) transport.write(way.to, values_in(way.inbox), values);
  }
  static void end_exchange(HaloTransport& transport, const std::vector<Way>& ways, std::int64_t version) {
    std::vector<HaloTransport::Counter> counters;
    counters.reserve(ways.size());
    for (const Way& way : ways) counters.push_back({way.to, way.inbox * inbox_bytes, version});
    transport.announce(counters);
    for (const Way& way : ways) {
      transport.await(way.from, transport.counter(way.inbox * inbox_bytes), version, "trial of the network: ");
    }
  }

  /// What a rank sends in a round.
  static void fill(std::span<float> values, int rank, std::int64_t round) {
    std::iota(values.begin(), values.end(), static_cast<float>(131 * rank + 17 * static_cast<int>(round)));
  }
  [[nodiscard]] std::string fault(int sender, Carrier carrier) const {
    return std::string("the self-test of the network failed: what rank ") + std::to_string(sender) + " sent to rank " +
           std::to_string(comm_.rank()) + (carrier == Carrier::put ? " by MPI_Put" : " by messages") +
           " arrived differently";
  }

  const Communicator& comm_;
  int next_, former_;
};

}  // namespace

bool are_puts_slow(const NetworkSpeed& speed) {
  return speed.bandwidth < 0.5 * speed.send_bandwidth;
}

NetworkSpeed measure_network_speed(const Communicator& comm) {
  HALOGRAD_REQUIRE(comm.ranks() >= 2,
                   "the speed of the network is measured between two ranks, but there is only one rank");
  const bool at_an_end = comm.rank() == 0 || comm.rank() == comm.ranks() - 1;
  const OwnedComm pair = comm.split(at_an_end ? 0 : 1);
  NetworkSpeed speed;
  comm.together([&] {
    if (!at_an_end) return;
    const Circle circle(pair);
    speed.latency = circle.latency();
    speed.bandwidth = circle.bandwidth(Carrier::put);
    speed.transport = circle.transport(speed.bandwidth);
  });
  return comm.broadcast(speed);
}

NetworkTrial try_network(const Communicator& comm) {
  NetworkTrial trial;
  if (comm.nodes() == 1) return trial;
  const bool first = comm.node_rank() == 0;
  const OwnedComm firsts = comm.split(first ? 0 : 1);
  comm.together([&] {
    if (!first) return;
    const Circle circle(firsts);
    NodeSpeed own;
    own.rank = comm.rank();
    own.speed.latency = circle.latency();
    own.speed.send_bandwidth = circle.bandwidth(Carrier::send);
    try {
      own.speed.bandwidth = circle.bandwidth(Carrier::put);
      if (firsts.largest(are_puts_slow(own.speed) ? 1 : 0) == 1) {  // perhaps only because other work was in the way
        own.speed.bandwidth = std::max(own.speed.bandwidth, circle.bandwidth(Carrier::put));
      }
    } catch (const CollectiveError& error) {
      trial.put_fault = error.what();
      own.speed.bandwidth = 0;
    }
    trial.nodes = firsts.gather(own);
  });
  trial.nodes = comm.broadcast(trial.nodes);
  trial.put_fault = comm.broadcast(trial.put_fault);
  return trial;
}

}  // namespace halograd
