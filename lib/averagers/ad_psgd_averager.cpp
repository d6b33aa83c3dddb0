#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/halo_mixer.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "window/host_staging.hpp"
#include "window/pair_window.hpp"

namespace halograd {
namespace {

constexpr std::uint64_t partner_key = 0xad95;

Sides sides_of(const Topology& topology) {
  HALOGRAD_REQUIRE(
      topology.dynamic() == nullptr,
      "averager ad_psgd draws its pairs itself, from a constant graph whose edges go both ways; topology.kind is \"",
      topology.kind(), "\"");
  return two_sides(topology.graph());
}

/// AD-PSGD (Lian et al., ICML 2018): pairs of neighbours replace their weights by their average, each at its own pace.
/// A rank that asks sends x_i and goes on; its partner sets x_j to the average a of what came and its own, and sends a;
/// the first adds a - (what it had sent) whenever that arrives. So the sum of the two stays as it is, whatever updates
/// were made meanwhile, and nobody waits for a rank that computes.
class AdPsgdAverager final : public Averager {
 public:
  explicit AdPsgdAverager(const AveragerContext& context, Sides sides)
      : rank_(context.comm.rank()),
        partners_(of_rank(context.comm, sides.partners)),
        asks_(of_rank(context.comm, sides.asks)),
        staging_(context.length),
        window_(context.comm, std::move(sides), context.length, transport_options(context.transport)),
        mixer_(context.length, 2) {
    if (asks_) sent_.resize(context.length);
  }

  void before_gradient(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) override {
    step_ = step;
    if (!asks_ || partners_.empty() || window_.is_asking()) return;
    const HostVector<const float> now = staging_.download(exec, weights);
    std::copy(now.data(), now.data() + now.size(), sent_.begin());
    const std::uint64_t key = random_bits(partner_key, static_cast<std::uint64_t>(rank_));
    window_.ask(random_bits(key, static_cast<std::uint64_t>(step)) % partners_.size(),
                HostVector<const float>(sent_.data(), sent_.size()), step);
  }
  void before_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> weights,
                     Vector<float> /*gradient*/, double /*share*/) override {
    exchange(exec, weights);
  }
  void after_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> weights) override {
    exchange(exec, weights);
  }

  bool settle(const ExecutionSpace& exec, Vector<float> weights) override {
    bool changed = false;
    window_.drain([&] { changed = exchange(exec, weights) || changed; });
    return changed;
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent(); }
  std::vector<EdgeRecord> take_edges() override { return window_.edges().take(); }

 private:
  template <class Values>
  static typename Values::value_type of_rank(const Communicator& comm, const Values& values) {
    return values[static_cast<std::size_t>(comm.rank())];
  }

  /// Takes the answer, or answers once each partner that has asked; whatever has come. Whether anything has.
  bool exchange(const ExecutionSpace& exec, Vector<float> weights) {
    bool changed = false;
    if (const std::optional<HostVector<const float>> average = window_.answer(step_)) {
      terms_.assign({{1, *average}, {-1, HostVector<const float>(sent_.data(), sent_.size())}});
      mixer_.mix(exec, 1, terms_, weights);
      changed = true;
    }
    for (std::size_t i = 0; i < partners_.size(); ++i) {
      const std::optional<std::size_t> partner = window_.asked();
      if (!partner) break;
      terms_.assign(1, {0.5, window_.question(*partner)});
      mixer_.mix(exec, 0.5, terms_, weights);
      window_.reply(*partner, staging_.download(exec, weights), step_);
      changed = true;
    }
    return changed;
  }

  int rank_;
  std::vector<int> partners_;
  bool asks_;
  std::vector<float> sent_;  // on a rank that asks: the question
  HostStaging staging_;
  PairWindow window_;
  HaloMixer mixer_;
  std::vector<WeightedHalo> terms_;  // those of one exchange
  std::int64_t step_ = 0;
};

std::unique_ptr<Averager> make_ad_psgd(const AveragerContext& context) {
  return std::make_unique<AdPsgdAverager>(context, sides_of(context.topology));
}

/// A question or an answer.
double bytes_of_ad_psgd(const ExchangeSize& size) {
  return size.topology.ranks() > 1 ? static_cast<double>(size.length * sizeof(float)) : 0;
}

Pace always_free(const AveragerConfig& /*averager*/) {
  return Pace::free;
}

}  // namespace

AveragerRow ad_psgd_row() {
  return {
      .name = "ad_psgd",
      .meaning = "the mean of the weights of two neighbours, at their own pace",
      .make = make_ad_psgd,
      .bytes_per_exchange = bytes_of_ad_psgd,
      .exchanges = Exchange::pairs,
      .graphs = Graphs::fixed_undirected,
      .of_nodes = false,
      .out_degree = false,
      .pace = always_free,
      .always_under_way = true,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = false,
      .options = std::vector<AveragerOption>{},
      .adjusted_by = std::vector<const char*>{},
  };
}

}  // namespace halograd
