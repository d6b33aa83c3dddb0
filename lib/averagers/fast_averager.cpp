#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "averagers/averagers.hpp"
#include "kernels/error.hpp"
#include "window/halo_window.hpp"
#include "window/host_staging.hpp"
#include "window/mail_window.hpp"

namespace halograd {
namespace {

/// FAST as published (Viviani et al., PDP 2019): each rank's gradient goes to its neighbours, and each makes a further
/// step of the optimizer with each that it receives. Nothing brings the replicas back together but this: every
/// sync_epochs epochs all take the weights of the one that is best on the test set, and the optimizer starts anew.
class FastAverager : public Averager {
 public:
  explicit FastAverager(const AveragerContext& context)
      : sync_epochs_(context.averager.sync_epochs),
        optimizer_step_(context.optimizer_step),
        restart_optimizer_(context.restart_optimizer) {
    if constexpr (!runs_on_host) received_.emplace("halograd::gradient", context.length);
  }

 protected:
  /// A further step of the optimizer; fences.
  void make_step(const ExecutionSpace& exec, Vector<float> weights, HostVector<const float> gradient) {
    optimizer_step_(exec, weights, in_reach(exec, gradient));
    exec.fence();
  }
  void restart_optimizer(const ExecutionSpace& exec) {
    restart_optimizer_(exec);
    exec.fence();
  }
  /// What is compared: a replica whose score is not a number is worse than any other.
  static double comparable(double score) {
    return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
  }

  int sync_epochs_;

 private:
  Vector<const float> in_reach([[maybe_unused]] const ExecutionSpace& exec, HostVector<const float> gradient) {
    if constexpr (runs_on_host) {
      return Vector<const float>(gradient.data(), gradient.extent(0));
    } else {
      Kokkos::deep_copy(exec, *received_, gradient);
      return *received_;
    }
  }

  std::function<void(const ExecutionSpace&, Vector<float>, Vector<const float>)> optimizer_step_;
  std::function<void(const ExecutionSpace&)> restart_optimizer_;
  std::optional<Buffer<float>> received_;
};

/// Every gradient of the same step, and all ranks take the best replica at the same time.
class SynchronousFastAverager final : public FastAverager {
 public:
  explicit SynchronousFastAverager(const AveragerContext& context)
      : FastAverager(context),
        comm_(context.comm),
        length_(context.length),
        neighbours_(context.topology.in_neighbours(comm_.rank()).size()),
        message_("halograd::gradient_message", length_ + 1),
        staging_(length_ + 1),
        weights_staging_(length_),
        window_(context.comm, context.topology, length_ + 1, {transport_options(context.transport)}) {
    window_.start_at(context.first_step);
  }

  void before_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> /*weights*/, Vector<float> gradient,
                     double share) override {
    if (comm_.ranks() == 1) return;
    Kokkos::deep_copy(exec, slice(message_, 0, length_), gradient);
    Kokkos::deep_copy(exec, slice(message_, length_, 1), share > 0 ? 1.0F : 0.0F);  // whether the gradient counts
    window_.put(step + 1, staging_.download(exec, message_));
  }

  void after_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) override {
    window_.flush();
    for (std::size_t edge = 0; edge < neighbours_; ++edge) {
      const HostVector<const float> halo = window_.wait(static_cast<int>(edge), step + 1);
      if (halo.data()[length_] != 0) make_step(exec, weights, slice(halo, 0, length_));
      window_.release(static_cast<int>(edge), step + 1);
    }
  }

  bool after_epoch(const ExecutionSpace& exec, std::int64_t epochs, Vector<float> weights, double score) override {
    if (sync_epochs_ == 0 || epochs % sync_epochs_ != 0) return false;
    const std::vector<double> scores = comm_.gather(comparable(score));
    const auto best = static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    const HostVector<float> host = weights_staging_.download_to_change(exec, weights);
    comm_.broadcast(std::span(host.data(), length_), best);
    weights_staging_.upload(exec, weights);
    restart_optimizer(exec);
    if (comm_.rank() == best) bytes_sent_ += static_cast<std::int64_t>(length_ * sizeof(float)) * (comm_.ranks() - 1);
    return true;
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent() + bytes_sent_; }
  std::vector<EdgeRecord> take_edges() override { return window_.edges().take(); }

 private:
  OwnedComm comm_;
  std::size_t length_;
  std::size_t neighbours_;
  Buffer<float> message_;
  HostStaging staging_, weights_staging_;
  HaloWindow window_;
  std::int64_t bytes_sent_ = 0;
};

/// Whatever gradients have come, and nobody waits: a gradient goes only to those neighbours that have read the last
/// one. The best replica spreads from rank to rank in place of gradients. A rank that ends a round of sync_epochs
/// epochs compares its replica with the best of that round that it has heard of, and takes the better one; where one
/// that is better still comes later, it takes that as well, and what it has learnt since is lost. Each passes the best
/// on. Ranks that share a replica hear of each shard by itself, and take one when all of them have heard of it.
class AsynchronousFastAverager final : public FastAverager {
 public:
  explicit AsynchronousFastAverager(const AveragerContext& context)
      : FastAverager(context),
        comm_(context.comm),
        group_(context.group),
        length_(context.length),
        staging_(context.length),
        window_(context.comm, step_graph(context.topology.graph()), context.length,
                transport_options(context.transport)),
        passes_on_(window_.out_edges(), false) {
    if (sync_epochs_ == 0) return;
    best_weights_.resize(length_);
    own_.round = context.first_epoch / sync_epochs_;
  }

  void before_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> /*weights*/,
                     Vector<float> gradient, double share) override {
    std::optional<HostVector<const float>> values;
    for (std::size_t edge = 0; edge < window_.out_edges(); ++edge) {
      if (!window_.is_free(edge)) continue;
      if (passes_on_[edge]) {
        window_.send(edge, best_weights(), best_.score, best_.round * comm_.ranks() + best_.rank);
        passes_on_[edge] = false;
      } else if (share > 0) {
        if (!values) values = staging_.download(exec, gradient);
        window_.send(edge, *values, 0, gradient_label);
      }
    }
  }
  void after_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> weights) override {
    take(exec, weights);
    if (sync_epochs_ > 0) take_if_better(exec, weights);
  }

  bool after_epoch(const ExecutionSpace& exec, std::int64_t epochs, Vector<float> weights, double score) override {
    if (sync_epochs_ == 0 || epochs / sync_epochs_ <= own_.round) return false;
    own_ = {epochs / sync_epochs_, comparable(score), comm_.rank()};
    restart_optimizer(exec);
    const bool whole = group_has_best();
    if (!best_.is_better_than(own_)) {
      if (!std::isnan(score)) hear_of(own_, staging_.download(exec, weights));
      return false;
    }
    if (whole) take_best(exec, weights);
    return whole;
  }

  /// Takes the gradients that are under way, and brings the best replica to all that have ended its round.
  bool settle(const ExecutionSpace& exec, Vector<float> weights) override {
    bool changed = false;
    window_.drain([&] { changed = take(exec, weights) || changed; });
    if (sync_epochs_ > 0) changed = spread_best(exec, weights) || changed;
    return changed;
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent() + bytes_sent_; }
  std::vector<EdgeRecord> take_edges() override { return window_.edges().take(); }

 private:
  static constexpr std::int64_t gradient_label = 0;  // of replicas: round * ranks + rank

  /// A replica as it was at the end of a round, on the rank that trained it. Of equally good ones the lowest rank's is
  /// the better, so that all ranks come to the same.
  struct Replica {
    std::int64_t round = 0;
    double score = -std::numeric_limits<double>::infinity();
    int rank = 0;
    bool operator==(const Replica&) const = default;
    [[nodiscard]] bool is_better_than(const Replica& other) const {
      return std::tuple(round, score, -rank) > std::tuple(other.round, other.score, -other.rank);
    }
  };

  /// Collective. Whether this rank has taken the best.
  bool spread_best(const ExecutionSpace& exec, Vector<float> weights) {
    const std::vector<Replica> all = comm_.gather(best_);
    const auto worse = [](const Replica& a, const Replica& b) { return b.is_better_than(a); };
    const auto [worst, best] = std::minmax_element(all.begin(), all.end(), worse);
    if (best->is_better_than(*worst)) {  // not all have heard of it
      const auto root = static_cast<int>(best - all.begin());
      best_ = *best;
      passes_on_.assign(window_.out_edges(), false);
      comm_.broadcast(std::span(best_weights_), root);
      if (comm_.rank() == root) bytes_sent_ += static_cast<std::int64_t>(length_ * sizeof(float)) * (comm_.ranks() - 1);
    }
    return take_if_better(exec, weights);
  }

  /// Whether the weights have changed.
  bool take(const ExecutionSpace& exec, Vector<float> weights) {
    bool changed = false;
    for (std::size_t edge = 0; edge < window_.in_edges(); ++edge) {
      const std::optional<MailWindow::Message> message = window_.receive(edge);
      if (!message) continue;
      if (message->label == gradient_label) {
        make_step(exec, weights, message->values);
        changed = true;
      } else {
        const Replica replica{message->label / comm_.ranks(), message->number,
                              static_cast<int>(message->label % comm_.ranks())};
        if (replica.is_better_than(best_)) hear_of(replica, message->values);
      }
      window_.release(edge);
    }
    return changed;
  }

  /// Collective over the group. Whether it has. One of a round that this rank has not ended waits for the rank's own to
  /// be compared with.
  bool take_if_better(const ExecutionSpace& exec, Vector<float> weights) {
    const bool whole = group_has_best();
    const bool better = whole && best_.round == own_.round && best_.is_better_than(own_);
    if (better) take_best(exec, weights);
    return better;
  }

  /// Collective over the group: whether all its ranks know the same replica as the best, each its shard.
  [[nodiscard]] bool group_has_best() const {
    if (group_ == nullptr) return true;
    const std::vector<Replica> all = group_->gather(best_);
    return std::all_of(all.begin(), all.end(), [this](const Replica& other) { return other == best_; });
  }

  void hear_of(const Replica& replica, HostVector<const float> weights) {
    best_ = replica;
    std::copy(weights.data(), weights.data() + length_, best_weights_.begin());
    passes_on_.assign(window_.out_edges(), true);
  }

  void take_best(const ExecutionSpace& exec, Vector<float> weights) {
    Kokkos::deep_copy(exec, weights, best_weights());
    restart_optimizer(exec);
    own_ = best_;
  }

  [[nodiscard]] HostVector<const float> best_weights() const {
    return HostVector<const float>(best_weights_.data(), length_);
  }

  Communicator comm_;
  const Communicator* group_;
  std::size_t length_;
  HostStaging staging_;
  MailWindow window_;
  Replica own_, best_;               // that this rank has had at the end of its last round; that it has heard of
  std::vector<float> best_weights_;  // of best_
  std::vector<bool> passes_on_;      // best_ over an out-edge
  std::int64_t bytes_sent_ = 0;      // by broadcast
};

std::unique_ptr<Averager> make_fast(const AveragerContext& context) {
  HALOGRAD_REQUIRE(context.optimizer_step && context.restart_optimizer, "the averager fast needs an optimizer");
  if (lockstep_or_free(context.averager) == Pace::free) return std::make_unique<AsynchronousFastAverager>(context);
  return std::make_unique<SynchronousFastAverager>(context);
}

/// The gradient and, in lockstep, whether it counts.
double bytes_of_fast(const ExchangeSize& size) {
  const std::size_t values = size.length + (lockstep_or_free(size.averager) == Pace::free ? 0 : 1);
  return size.topology.mean_out(size.rank) * static_cast<double>(values * sizeof(float));
}

}  // namespace

AveragerRow fast_row() {
  return {
      .name = "fast",
      .meaning = "a further step of the optimizer with the gradient of each in-neighbour",
      .make = make_fast,
      .bytes_per_exchange = bytes_of_fast,
      .exchanges = Exchange::gradients,
      .graphs = Graphs::fixed,
      .of_nodes = false,
      .out_degree = false,
      .pace = lockstep_or_free,
      .always_under_way = false,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = false,
      .options = std::vector<AveragerOption>{{.key = "staleness", .apart = true, .bounded = false}},
      .adjusted_by = std::vector<const char*>{"sync_epochs"},
  };
}

}  // namespace halograd
