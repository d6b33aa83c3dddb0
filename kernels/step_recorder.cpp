#include "kernels/step_recorder.hpp"

#include <algorithm>
#include <exception>
#include <optional>

#include "kernels/accelerator_runtime.hpp"
#include "kernels/compat.hpp"
#include "kernels/label.hpp"

namespace halograd {

#if defined(HALOGRAD_RUNTIME)

namespace {

constexpr std::size_t most_recordings = 4;  // two places of a batch, twice

HALOGRAD_RUNTIME(Stream_t) stream_of(const ExecutionSpace& exec) {
#if defined(KOKKOS_ENABLE_CUDA)
  return exec.cuda_stream();
#else
  return exec.hip_stream();
#endif
}

/// Throws Error unless a graph consists of kernels and of memory that is set. A copy could be one of a kernel's
/// arguments, which Kokkos passes through a buffer where they are large: replayed, it would read others.
void require_kernels_only(HALOGRAD_RUNTIME(Graph_t) graph) {
  std::size_t count = 0;
  require_success(HALOGRAD_RUNTIME(GraphGetNodes)(graph, nullptr, &count), "the nodes of a graph");
  HALOGRAD_REQUIRE(count > 0, "nothing was recorded");
  std::vector<HALOGRAD_RUNTIME(GraphNode_t)> nodes(count);
  require_success(HALOGRAD_RUNTIME(GraphGetNodes)(graph, nodes.data(), &count), "the nodes of a graph");
  for (const auto& node : nodes) {
    HALOGRAD_RUNTIME(GraphNodeType) type{};
    require_success(HALOGRAD_RUNTIME(GraphNodeGetType)(node, &type), "the type of a node");
    const bool repeatable = type == HALOGRAD_RUNTIME(GraphNodeTypeKernel) ||
                            type == HALOGRAD_RUNTIME(GraphNodeTypeMemset) ||
                            type == HALOGRAD_RUNTIME(GraphNodeTypeEmpty);
    HALOGRAD_REQUIRE(repeatable, "a step has work that is no kernel (type ", static_cast<int>(type), ")");
  }
}

struct NoWork {
  KOKKOS_FUNCTION void operator()(const Kokkos::TeamPolicy<ExecutionSpace>::member_type& /*team*/) const {}
};

/// Kokkos asks the device for memory at each launch of teams, for 0 bytes at that, until one of them had scratch of
/// level 1; a recording forbids to ask. Teams that have such scratch wait for it: those that compute do without.
void reserve_team_scratch(const ExecutionSpace& exec) {
  using Teams = Kokkos::TeamPolicy<ExecutionSpace>;
  Kokkos::parallel_for(label("halograd::no_work"), Teams(exec, 1, 1).set_scratch_size(1, Kokkos::PerTeam(16)),
                       NoWork());
}

}  // namespace

/// Records on an instance and stream of its own: nobody else uses the scratch memory of its reductions, whose address
/// is recorded, and no other stream's work gets between.
struct StepRecorder::Stream {
  HALOGRAD_RUNTIME(Stream_t) handle = nullptr;
  std::optional<ExecutionSpace> space;

  Stream() {
    require_success(HALOGRAD_RUNTIME(StreamCreateWithFlags)(&handle, HALOGRAD_RUNTIME(StreamNonBlocking)),
                    "a stream to record on");
    space.emplace(handle);
    reserve_team_scratch(*space);
  }
  ~Stream() {
    space.reset();
    static_cast<void>(HALOGRAD_RUNTIME(StreamDestroy)(handle));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

struct StepRecorder::Recording {
  Key key;
  HALOGRAD_RUNTIME(GraphExec_t) graph = nullptr;  // null: run once, not recorded yet

  explicit Recording(const Key& k) : key(k) {}
  ~Recording() {
    if (graph != nullptr) static_cast<void>(HALOGRAD_RUNTIME(GraphExecDestroy)(graph));
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

StepRecorder::StepRecorder() {
  if (!launches_repeat) refusal_ = "Kokkos " + kokkos_version() + " is older than 4.6";
}

void StepRecorder::record_or_replay(const ExecutionSpace& exec, const Key& key, const AnyLaunch& launch) {
  if (!refusal_.empty() || (!recordings_.empty() && recordings_.front()->key.size != key.size)) return launch(exec);
  const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                  [&](const auto& recording) { return recording->key == key; });
  if (found == recordings_.end()) {
    if (recordings_.size() == most_recordings) return launch(exec);
    // The recorder's instance gets its scratch memory here, and kernels are loaded: neither can be recorded.
    if (!stream_) stream_ = std::make_unique<Stream>();
    exec.fence();
    launch(*stream_->space);
    stream_->space->fence();
    recordings_.push_back(std::make_unique<Recording>(key));
    return;
  }
  Recording& recording = **found;
  try {
    if (recording.graph == nullptr) record(recording, launch);
    require_success(HALOGRAD_RUNTIME(GraphLaunch)(recording.graph, stream_of(exec)), "the launch of a graph");
  } catch (const std::exception& error) {
    refuse(error.what());
    launch(exec);
  }
}

void StepRecorder::record(Recording& recording, const AnyLaunch& launch) {
  HALOGRAD_RUNTIME(Graph_t) graph = nullptr;
  // Other threads may allocate and wait meanwhile.
  require_success(HALOGRAD_RUNTIME(StreamBeginCapture)(stream_->handle, HALOGRAD_RUNTIME(StreamCaptureModeThreadLocal)),
                  "the recording of a step");
  std::exception_ptr failure;
  try {
    launch(*stream_->space);
  } catch (...) {
    failure = std::current_exception();
  }
  const auto ended = HALOGRAD_RUNTIME(StreamEndCapture)(stream_->handle, &graph);
  try {
    if (failure) std::rethrow_exception(failure);
    require_success(ended, "the recording of a step");
    require_kernels_only(graph);
    require_success(HALOGRAD_RUNTIME(GraphInstantiateWithFlags)(&recording.graph, graph, 0), "the making of a graph");
  } catch (...) {
    if (graph != nullptr) static_cast<void>(HALOGRAD_RUNTIME(GraphDestroy)(graph));
    throw;
  }
  static_cast<void>(HALOGRAD_RUNTIME(GraphDestroy)(graph));
}

void StepRecorder::refuse(const std::string& why) {
  static_cast<void>(HALOGRAD_RUNTIME(GetLastError)());  // or Kokkos finds it and takes it for its own
  refusal_ = why.substr(0, why.find('\n'));
  clear();
}

#else

struct StepRecorder::Stream {};
struct StepRecorder::Recording {};

StepRecorder::StepRecorder() = default;

#endif

StepRecorder::~StepRecorder() = default;

void StepRecorder::clear() {
  recordings_.clear();
}

}  // namespace halograd
