#include <algorithm>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/codec_table.hpp"
#include "averagers/weight_averager.hpp"
#include "kernels/codec.hpp"
#include "kernels/mix.hpp"
#include "mpi/most_in_a_call.hpp"
#include "mpi/wait.hpp"
#include "window/halo_window.hpp"
#include "window/host_staging.hpp"

namespace halograd {
namespace {

/// A halo of the window is of floats; this one holds a code.
std::size_t words_of(std::size_t bytes) {
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

/// CHOCO-SGD (Koloskova, Stich, Jaggi, 2019). Every rank keeps an estimate of its own replica and of each neighbour's.
/// It sends the code of the difference between replica and estimate, and all who hold that estimate add what the code
/// stands for. Replicas move towards each other by the differences of estimates, which cancel in the sum: the mean of
/// the replicas stays, however coarse the code.
class CompressedNeighbourAverager final : public WeightAverager {
 public:
  explicit CompressedNeighbourAverager(const AveragerContext& context)
      : WeightAverager(context),
        codec_(codec_row_of(context.averager).codec(context.averager)),
        consensus_step_(consensus_step_of(context.averager)),
        length_(context.length),
        code_bytes_(codec_.bytes(length_)),
        neighbours_(context.topology.in_neighbours(context.comm.rank())),
        out_neighbours_(context.topology.out_neighbours(context.comm.rank())),
        others_(averages_momentum(context.averager) ? context.optimizer_state : std::vector<Vector<float>>()),
        total_(length_ * (1 + others_.size())),
        words_(words_of(code_bytes_ * (1 + others_.size()))),
        code_("halograd::code", words_),
        own_("halograd::estimate", total_),
        code_staging_(words_),
        state_staging_(total_),
        window_(context.comm, context.topology, words_, {transport_options(context.transport)}),
        comm_(context.comm) {
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) estimates_.emplace_back("halograd::estimate", total_);
    window_.start_at(context.first_step);
  }

  [[nodiscard]] std::vector<SavedState> state() override {
    const HostVector<float> own = state_staging_.download_to_change(ExecutionSpace(), own_);
    return {{"estimate", std::span(own.data(), own.size())}};
  }

  /// Only the own estimate is in the checkpoint: the neighbours have theirs.
  void restored() override {
    state_staging_.upload(ExecutionSpace(), own_);
    const HostVector<const float> own = state_staging_.download(ExecutionSpace(), own_);
    std::vector<Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::HostSpace>> received;
    std::vector<MPI_Request> requests;
    for (std::size_t begin = 0; begin < total_; begin += most_in_a_call) {
      const int count = static_cast<int>(std::min(most_in_a_call, total_ - begin));
      for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) {
        if (begin == 0) received.emplace_back("halograd::estimate", total_);
        MPI_Irecv(received[edge].data() + begin, count, MPI_FLOAT, neighbours_[edge].rank, 0, comm_.handle(),
                  &requests.emplace_back());
      }
      for (const Neighbour& neighbour : out_neighbours_) {
        MPI_Isend(own.data() + begin, count, MPI_FLOAT, neighbour.rank, 0, comm_.handle(), &requests.emplace_back());
      }
    }
    for (MPI_Request& request : requests) wait_politely(request);
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) Kokkos::deep_copy(estimates_[edge], received[edge]);
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent(); }
  std::vector<EdgeRecord> take_edges() override { return window_.edges().take(); }

 private:
  template <class Word>
  [[nodiscard]] auto code_part(Word* words, std::size_t part) const {
    using Byte = std::conditional_t<std::is_const_v<Word>, const std::byte, std::byte>;
    return Vector<Byte>(reinterpret_cast<Byte*>(words) + part * code_bytes_, code_bytes_);
  }

  void publish(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) override {
    if (out_neighbours_.empty()) return;
    for (std::size_t part = 0; part <= others_.size(); ++part) {
      const Vector<const float> values = part == 0 ? weights : Vector<const float>(others_[part - 1]);
      encode_difference(exec, codec_, values, slice(own_, part * length_, length_), code_part(code_.data(), part));
    }
    window_.put(step + 1, code_staging_.download(exec, code_));
  }

  void combine(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) override {
    window_.flush();  // before the code is written again
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) {
      const HostVector<const float> halo = window_.wait(static_cast<int>(edge), step + 1);
      const float* code = halo.data();
      if constexpr (!Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible) {
        Kokkos::deep_copy(exec, code_, halo);  // the own code has left
        code = code_.data();
      }
      for (std::size_t part = 0; part <= others_.size(); ++part) {
        add_decoded(exec, codec_, code_part(code, part), slice(estimates_[edge], part * length_, length_));
      }
      exec.fence();
      window_.release(static_cast<int>(edge), step + 1);
    }
    for (std::size_t part = 0; part <= others_.size(); ++part) {
      pull(exec, part * length_, part == 0 ? weights : others_[part - 1]);
    }
    exec.fence();
  }

  /// x += consensus_step sum_j W_ij (estimate_j - estimate_i)
  void pull(const ExecutionSpace& exec, std::size_t begin, Vector<float> x) const {
    MixTerms terms;
    double all = 0;
    const auto add = [&](double weight, const Buffer<float>& estimate) {
      terms.weights[terms.count] = consensus_step_ * weight;
      terms.halos[terms.count] = estimate.data() + begin;
      if (++terms.count < mix_width) return;
      mix(exec, terms, x);
      terms.count = 0;
    };
    for (std::size_t edge = 0; edge < neighbours_.size(); ++edge) {
      all += neighbours_[edge].weight;
      add(neighbours_[edge].weight, estimates_[edge]);
    }
    add(-all, own_);
    if (terms.count > 0) mix(exec, terms, x);
  }

  Codec codec_;
  double consensus_step_;
  std::size_t length_, code_bytes_;
  std::vector<Neighbour> neighbours_, out_neighbours_;
  std::vector<Vector<float>> others_;  // the optimizer's buffers, where they are averaged too
  std::size_t total_, words_;
  Buffer<float> code_, own_;
  std::vector<Buffer<float>> estimates_;  // of the in-neighbours' replicas
  HostStaging code_staging_, state_staging_;
  HaloWindow window_;
  OwnedComm comm_;
};

}  // namespace

std::unique_ptr<Averager> make_compressed_averager(const AveragerContext& context) {
  return std::make_unique<CompressedNeighbourAverager>(context);
}

}  // namespace halograd
