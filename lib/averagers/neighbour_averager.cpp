#include <algorithm>
#include <cmath>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/codec_table.hpp"
#include "averagers/halo_averager.hpp"
#include "kernels/error.hpp"
#include "kernels/stream_copy.hpp"
#include "mpi/wait.hpp"
#include "support/trace.hpp"
#include "window/halo_buffer.hpp"
#include "window/halo_window.hpp"
#include "window/host_staging.hpp"

namespace halograd {

namespace {

/// What all forms of neighbour averaging share.
class NeighbourAverager : public HaloAverager {
 public:
  NeighbourAverager(const AveragerContext& context, const HaloWindow::Options& options)
      : HaloAverager(
            context,
            options.memory == HaloMemory::device ? 0 : context.topology.in_neighbours(context.comm.rank()).size(),
            !averages_momentum(context.averager)),
        out_degree_(context.topology.out_neighbours(context.comm.rank()).size()),
        length_(context.length),
        others_(averages_momentum(context.averager) ? context.optimizer_state : std::vector<Vector<float>>()),
        on_device_(options.memory == HaloMemory::device),
        staging_(on_device_ ? 0 : length_ * (1 + others_.size())),
        window_(context.comm, context.topology, length_ * (1 + others_.size()), options),
        neighbours_(context.topology.in_neighbours(context.comm.rank())),
        self_weight_(context.topology.self_weight(context.comm.rank())) {
    parts_.reserve(neighbours_.size());
    if (!others_.empty()) packed_ = Buffer<float>("halograd::packed", length_ * (1 + others_.size()));
    window_.start_at(context.first_step);
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent(); }
  std::vector<EdgeRecord> take_edges() override { return window_.edges().take(); }

 private:
  void mix_halos(const ExecutionSpace& exec, double self_weight, Vector<float> weights) override {
    mix_part(exec, self_weight, 0, weights);
    for (std::size_t i = 0; i < others_.size(); ++i) mix_part(exec, self_weight, i + 1, others_[i]);
  }

  void publish(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) override {
    if (out_degree_ == 0) return;
    if (others_.empty()) {
      window_.put(step + 1, for_window(exec, weights));
      return;
    }
    Kokkos::deep_copy(exec, slice(packed_, 0, length_), weights);
    for (std::size_t i = 0; i < others_.size(); ++i) {
      Kokkos::deep_copy(exec, slice(packed_, length_ * (i + 1), length_), others_[i]);
    }
    window_.put(step + 1, for_window(exec, packed_));
  }

  /// Values as exec's work so far leaves them, where the window takes them from.
  HaloValues<const float> for_window(const ExecutionSpace& exec, Vector<const float> values) {
    if (!on_device_) return staging_.download(exec, values);
    exec.fence();
    return HaloValues<const float>::on_device(values);
  }

  void store_ahead(const ExecutionSpace& exec, std::size_t begin, Vector<const float> values,
                   bool beyond_caches) override {
    const HostVector<float> all = window_.next_slot();
    if (all.extent(0) == 0) return;
    const HostVector<float> slot = slice(all, begin, values.extent(0));
    if (!beyond_caches) return Kokkos::deep_copy(exec, slot, values);
    stream_copy(Kokkos::DefaultHostExecutionSpace(), HostVector<const float>(values.data(), values.extent(0)), slot);
  }
  void send_ahead(const ExecutionSpace& exec, std::size_t begin, Vector<const float> values) override {
    window_.put_ahead(begin, for_window(exec, values));
  }

  std::size_t out_degree_, length_;
  std::vector<Vector<float>> others_;  // the optimizer's buffers, where they travel behind the weights
  Buffer<float> packed_;               // all of it
  bool on_device_;                     // halos: put from there to there
  HostStaging staging_;                // where they are not
  std::vector<WeightedHalo> parts_;

 protected:
  /// Values of a halo.
  [[nodiscard]] std::size_t halo_length() const { return length_ * (1 + others_.size()); }

  HaloWindow window_;
  std::vector<Neighbour> neighbours_;
  double self_weight_;

 private:
  void mix_part(const ExecutionSpace& exec, double self_weight, std::size_t part, Vector<float> values) {
    parts_.clear();
    for (const auto& [weight, halo] : halos_) parts_.push_back({weight, halo.part(part * length_, length_)});
    mixer_.mix(exec, self_weight, parts_, values);
  }
};

/// Exactly the neighbours' weights of the same step. Always in ascending order of rank, own weights first, so that
/// equal runs are equal to the last bit.
class SynchronousNeighbourAverager final : public NeighbourAverager {
 public:
  using NeighbourAverager::NeighbourAverager;

 private:
  double take_halos(std::int64_t step) override {
    window_.flush();  // before the mix changes what MPI may still be reading
    halos_.clear();
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) {
      halos_.push_back({neighbours_[edge].weight, window_.wait(static_cast<int>(edge), step + 1)});
    }
    return self_weight_;
  }
  void release_halos(std::int64_t step) override {
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) window_.release(static_cast<int>(edge), step + 1);
  }
};

Pace pace_of(const AveragerConfig& averager) {
  if (averager.staleness < 0 || averager.patience > 0) return Pace::free;
  return averager.staleness > 0 ? Pace::bounded : Pace::lockstep;
}

/// The newest weights that each neighbour has published, at most `staleness` steps old (-1: however old). A halo's
/// weight falls with its age, and what it loses goes to the rank's own weights, as does all of it where a neighbour has
/// published nothing yet or is waited for in vain for `patience` seconds (0: without end). Such a late neighbour enters
/// again in each step in which it has published something new.
///
/// Ranks that may wait without end make equally many steps: a halo's age is the number of steps that its version is
/// behind this rank's own. Other ranks make as many steps as they can, which says nothing about each other's: there it
/// is the number of own steps since the halo came.
class StaleNeighbourAverager final : public NeighbourAverager {
 public:
  StaleNeighbourAverager(const AveragerContext& context, const HaloWindow::Options& options)
      : NeighbourAverager(context, options),
        staleness_(context.averager.staleness),
        age_factor_(context.averager.age_factor),
        patience_(context.averager.patience),
        report_seconds_(options.report_seconds),
        by_version_(pace_of(context.averager) == Pace::bounded),
        first_version_(context.first_step),
        have_(neighbours_.size(), context.first_step),
        since_(neighbours_.size(), context.first_step),
        late_(neighbours_.size(), false) {
    copies_.reserve(neighbours_.size());
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) copies_.emplace_back(options.memory, halo_length());
  }

  [[nodiscard]] double wait_seconds() const override { return NeighbourAverager::wait_seconds() + waited_; }

 private:
  double take_halos(std::int64_t step) override {
    const std::int64_t own = step + 1;
    double self_weight = 1;
    halos_.clear();
    window_.flush();
    window_.move_on();
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) {
      const bool usable = fetch(edge, own);
      if (!usable || have_[edge] == first_version_) {
        window_.edges().left_out(static_cast<int>(edge));
        continue;
      }
      const std::int64_t age = age_of(edge, own);
      window_.edges().mixed(static_cast<int>(edge), age);
      const double weight = neighbours_[edge].weight * std::pow(age_factor_, static_cast<double>(age));
      self_weight -= weight;
      halos_.push_back({weight, copies_[edge].values().to_read()});
    }
    return self_weight;
  }

  /// Brings the copy of a neighbour's weights up to date; whether it is to be mixed. A late neighbour is not waited for
  /// again before it is within the bound: one that was held up once and then keeps pace would never be.
  bool fetch(std::size_t edge, std::int64_t own) {
    const auto newest = [&] {
      const std::int64_t version = window_.copy_latest(static_cast<int>(edge), have_[edge], copies_[edge].values());
      if (version > have_[edge]) since_[edge] = own;
      have_[edge] = version;
      return staleness_ < 0 || age_of(edge, own) <= staleness_;
    };
    const std::int64_t before = have_[edge];
    bool in_bound = newest();
    if (!in_bound && !late_[edge]) {
      const trace::Span span("wait", "comm");
      PolitePause pause;
      bool reported = false;
      while (!in_bound && (patience_ == 0 || pause.seconds() < patience_)) {
        pause();
        window_.move_on();
        in_bound = newest();
        if (in_bound || reported || pause.seconds() < report_seconds_) continue;
        reported = true;
        const std::int64_t wanted = by_version_ ? own - staleness_ : have_[edge] + 1;
        window_.report_late(static_cast<int>(edge), wanted, have_[edge], pause.seconds());
      }
      waited_ += pause.seconds();
      window_.edges().waited(static_cast<int>(edge), pause.seconds());
    }
    const bool back = late_[edge] && have_[edge] > before;
    late_[edge] = !in_bound;
    return in_bound || back;
  }

  [[nodiscard]] std::int64_t age_of(std::size_t edge, std::int64_t own) const {
    return std::max<std::int64_t>(0, own - (by_version_ ? have_[edge] : since_[edge]));
  }

  std::int64_t staleness_;
  double age_factor_, patience_, report_seconds_;
  bool by_version_;  // ages
  std::int64_t first_version_;
  std::vector<std::int64_t> have_;   // per in-edge: the version in copies_; first_version_: none yet
  std::vector<std::int64_t> since_;  // per in-edge: the own version of the step in which that one came
  std::vector<bool> late_;
  std::vector<HaloBuffer> copies_;
  double waited_ = 0;
};

std::unique_ptr<Averager> make_neighbour(const AveragerContext& context) {
  const AveragerConfig& averager = context.averager;
  if (context.topology.dynamic() != nullptr) return make_dynamic_neighbour_averager(context);
  if (is_coded(averager)) return make_compressed_averager(context);
  HaloWindow::Options options{transport_options(context.transport)};
  options.memory = context.halo_memory;
  options.exact = pace_of(averager) == Pace::lockstep;
  options.free = pace_of(averager) == Pace::free;
  if (options.exact) return std::make_unique<SynchronousNeighbourAverager>(context, options);
  return std::make_unique<StaleNeighbourAverager>(context, options);
}

double bytes_of_neighbour(const ExchangeSize& size) {
  const std::size_t halo = codec_row_of(size.averager).bytes(size.averager, size.length);
  return size.topology.mean_out(size.rank) * static_cast<double>(size.parts * halo);
}

}  // namespace

AveragerRow neighbour_row() {
  return {
      .name = "neighbour",
      .meaning = "weights of in-neighbours",
      .make = make_neighbour,
      .bytes_per_exchange = bytes_of_neighbour,
      .exchanges = Exchange::weights,
      .graphs = Graphs::any,
      .of_nodes = false,
      .out_degree = false,
      .pace = pace_of,
      .always_under_way = false,
      .survives_losses = true,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = true,
      .options =
          std::vector<AveragerOption>{
              {.key = "staleness", .fixed_graph = true, .apart = true},
              {.key = "patience", .fixed_graph = true, .apart = true},
              {.key = "codec", .fixed_graph = true, .every_step = true},
              {.key = "momentum", .fixed_graph = true},
          },
      .adjusted_by = std::vector<const char*>{"order", "age_factor", "kept_share", "consensus_step"},
  };
}

}  // namespace halograd
