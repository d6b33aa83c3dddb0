#include "graph/waiting.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/random.hpp"

namespace halograd {
namespace {

constexpr double pi = 3.14159265358979323846;

/// Standard normal numbers whose mean is 0 exactly: each comes with its negative.
const std::vector<double>& normal_numbers() {
  static const std::vector<double> numbers = [] {
    std::vector<double> all;
    for (std::uint64_t i = 0; all.size() < std::size_t{1} << 16U; ++i) {  // Box and Muller, 1958
      const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random_uniform(1, i))));
      const double angle = 2 * pi * static_cast<double>(random_uniform(2, i));
      for (const double number : {radius * std::cos(angle), radius * std::sin(angle)}) {
        all.push_back(number);
        all.push_back(-number);
      }
    }
    return all;
  }();
  return numbers;
}

/// What a rank computes from one exchange to the next.
struct Computing {
  double exchanging;  ///< in the step of the exchange
  double others;      ///< in the steps without one, which follow it
};

Computing drawn(std::uint64_t exchange, std::uint64_t rank, const LockstepExchange& times, const Unevenness& uneven) {
  const std::vector<double>& normal = normal_numbers();
  const std::uint64_t bits = random_bits(exchange, rank);
  const std::uint64_t mask = normal.size() - 1;
  const double own = times.compute * (rank == 0 ? uneven.slowest : 1);
  const double steps = times.every - 1;
  return {own * std::max(0.0, 1 + uneven.spread * normal[bits & mask]),
          own * std::max(0.0, steps + uneven.spread * std::sqrt(steps) * normal[(bits >> 32U) & mask])};
}

}  // namespace

double lockstep_seconds(const std::vector<TimedEdges>& edges, const LockstepExchange& times, const Unevenness& uneven) {
  if (uneven.spread == 0) {
    double travel = 0;
    for (const TimedEdges& each : edges) {
      const double waited = each.travel - times.hidden * uneven.slowest * times.compute;
      travel += std::max(0.0, waited) / static_cast<double>(edges.size());
    }
    return uneven.slowest * times.compute + (travel + times.after) / times.every;
  }
  constexpr std::size_t warm_up = 100, least = 50, most = 4000, most_visits = 250'000;
  const std::size_t ranks = edges.front().in.size();
  std::size_t visits = ranks;  // of ranks and edges in an exchange
  for (const std::vector<int>& in : edges.front().in) visits += in.size();
  // Fewer exchanges of very many ranks; whole rounds of the edges, so that each counts equally.
  const std::size_t rounds = std::clamp(most_visits / visits, least, most) / edges.size() + 1;
  const std::size_t warm_up_rounds = warm_up / edges.size() + 1;
  std::vector<double> begin(ranks, 0.0), left(ranks), computed(ranks);
  double measured_from = 0;
  for (std::size_t exchange = 0; exchange < (warm_up_rounds + rounds) * edges.size(); ++exchange) {
    if (exchange == warm_up_rounds * edges.size()) measured_from = *std::max_element(begin.begin(), begin.end());
    const TimedEdges& now = edges[exchange % edges.size()];
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Computing computing = drawn(exchange, rank, times, uneven);
      left[rank] = begin[rank] + (1 - times.hidden) * computing.exchanging;
      computed[rank] = begin[rank] + computing.exchanging;
      begin[rank] = computing.others;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      double last = left[rank];
      for (const int from : now.in[rank]) last = std::max(last, left[static_cast<std::size_t>(from)]);
      begin[rank] += std::max(computed[rank], last + now.travel) + times.after;
    }
  }
  const double seconds = *std::max_element(begin.begin(), begin.end()) - measured_from;
  return seconds / static_cast<double>(rounds * edges.size()) / times.every;
}

double slowest_of(int ranks, const Unevenness& uneven) {
  if (uneven.spread == 0 || ranks == 1) return ranks == 1 ? 1 : uneven.slowest;
  // The integral of the chance that a rank takes longer, from where all do to where none does.
  const auto is_done = [&](double factor, double time) {
    return 0.5 * std::erfc(-(time / factor - 1) / uneven.spread / std::sqrt(2.0));
  };
  constexpr double widths = 9;
  constexpr int points = 4000;
  const double from = std::max(0.0, 1 - widths * uneven.spread);
  const double to = uneven.slowest * (1 + widths * uneven.spread);
  const double step = (to - from) / points;
  double sum = from;
  for (int i = 0; i < points; ++i) {
    const double time = from + (i + 0.5) * step;
    sum += step * (1 - is_done(uneven.slowest, time) * std::pow(is_done(1, time), ranks - 1));
  }
  return sum;
}

}  // namespace halograd
