#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/watch_view.hpp"
#include "convert/image_file.hpp"
#include "convert/import_file.hpp"
#include "convert/safetensors.hpp"
#include "convert/state_dict_hdf5.hpp"
#include "data/dataset.hpp"
#include "data/disk_cache.hpp"
#include "graph/topology_file.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/edge_metrics.hpp"
#include "io/local_copies.hpp"
#include "io/metrics_read.hpp"
#include "io/summary.hpp"
#include "kernels/compat.hpp"
#include "kernels/error.hpp"
#include "memory_bound.hpp"
#include "nn/losses.hpp"
#include "run/cluster_config.hpp"
#include "run/read.hpp"
#include "run/write.hpp"

/// What halograd reads from files that others made, as libFuzzer's entry points (clang), which replay.cpp has for other
/// compilers. A reader returns a result or throws an Error that names the file; any other exception, a crash, a finding
/// of a sanitizer, a hang and memory beyond the bound below are faults.
namespace halograd::fuzz {
namespace {

constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> live{0}, most_live{no_bound};  ///< bytes of the input that is being read

/// Lists, caches and buffers of HDF5 and of the C++ library, however small the file is.
constexpr std::int64_t base_bytes = std::int64_t{8} << 20U;
constexpr std::int64_t most_packed = 1032;  ///< what deflate makes of one byte

namespace fs = std::filesystem;
using Bytes = std::span<const std::uint8_t>;

/// Where inputs are put, removed when the process ends.
class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "halograd_fuzz_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string put(const std::string& name, Bytes bytes) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

const Folder& folder() {
  static const Folder folder;
  return folder;
}

[[noreturn]] void fault(const std::string& what) {
  std::fprintf(stderr, "fault: %s\n", what.c_str());
  std::abort();
}

void attempt(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    const std::string message = error.what();
#ifdef HALOGRAD_FUZZ_SHOW
    std::printf("  %s\n", error.what());
#endif
    if (message.find(folder().path()) == std::string::npos) fault("the error does not name the file: " + message);
  }
}

void read_run_file(Bytes bytes) {
  const std::string path = folder().put("run.toml", bytes);
  const RunConfig config = read_config(path);
  if (parse_config(to_toml(config), path) != config) fault("the resolved run file means another run");
}

void read_topology(Bytes bytes) {
  constexpr int ranks = 4;
  if (read_topology_file(folder().put("topology.toml", bytes), "automatic", ranks).ranks() != ranks)
    fault("the topology has another number of ranks");
}

/// All images and labels of a set, but at most those that a second is enough for.
void read_set(const DataConfig& config) {
  for (const Split split : {Split::train, Split::test}) {
    attempt([&] {
      const auto set = open_dataset(config, split, 1);
      std::vector<float> image(static_cast<std::size_t>(set->shape().values()));
      const auto labels = static_cast<std::size_t>(set->labels_per_image());
      std::vector<std::int32_t> classes(labels);
      std::vector<float> targets(labels * static_cast<std::size_t>(set->target_values()));
      for (long index = 0; index < std::min(set->size(), 256L); ++index) {
        set->read(std::span(&index, 1), image.data(), classes.data());
        if (set->target_values() > 0) {
          set->read_targets(std::span(&index, 1), targets.data());
          continue;
        }
        for (const std::int32_t label : classes)
          if (label < 0 || label >= set->classes()) fault("label " + std::to_string(label));
      }
    });
  }
}

DataConfig data_of(const char* format, const std::string& path) {
  DataConfig config;
  config.format = format;
  config.path = path;
  return config;
}

/// Two bytes with the length of the labels' file, that file, and the images' file; either may be gzipped.
void read_idx(Bytes bytes) {
  const std::size_t given = bytes.size() < 2 ? 0 : bytes[0] + 256U * bytes[1];
  const Bytes files = bytes.subspan(std::min<std::size_t>(2, bytes.size()));
  const std::size_t labels = std::min(given, files.size());
  for (const std::string prefix : {"train-", "t10k-"}) {
    (void)folder().put(prefix + "labels-idx1-ubyte", files.first(labels));
    (void)folder().put(prefix + "images-idx3-ubyte", files.subspan(labels));
  }
  read_set(data_of("idx", folder().path()));
}

/// The same file for all that a set consists of.
void read_cifar(Bytes bytes) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin", "train.bin", "test.bin"})
    (void)folder().put(name, bytes);
  for (const char* format : {"cifar10", "cifar100"}) read_set(data_of(format, folder().path()));
}

/// The same file with labels and with objects.
void read_hdf5(Bytes bytes) {
  DataConfig config = data_of("hdf5", folder().put("data.h5", bytes));
  read_set(config);
  config.format = "objects";
  config.objects_field = {2};
  config.objects_test = 16;
  config.cache_memory = std::uint64_t{1} << 24U;
  read_set(config);
  (void)format_found_at(config.path);
}

void read_state(const StateDict& state) {
  for (const StateTensor& tensor : state) {
    long count = 1;
    for (const long extent : tensor.extents) count *= extent;
    if (tensor.values.size() + tensor.integers.size() != static_cast<std::size_t>(count))
      fault("tensor " + tensor.name + " has not as many values as its extents say");
  }
}

/// As inspect, evaluate and a run that is resumed do. Left out is what needs MPI_Init: the collective read of rows that
/// look_for_damage() has found whole.
void read_checkpoint_file(Bytes bytes) {
  const std::string path = folder().put("checkpoint.h5", bytes);
  attempt([&] { (void)read_checkpoint_header(path); });
  attempt([&] { (void)averager_state_difference(path, {}); });
  attempt([&] {
    const Hdf5Session session;
    const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
    (void)read_epoch_sums(file, read_layout(file, path).ranks, path);
  });
  attempt([&] { (void)read_checkpoint_outputs(path); });
  attempt([&] { look_for_damage(path, 0, 1); });
  attempt([&] {
    const Hdf5Session session;
    const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
    const CheckpointLayout layout = read_layout(file, path);
    const std::vector<ReplicaDataset> datasets = replica_datasets(layout);
    const auto fits = [&](std::size_t dataset, std::int64_t row, std::int64_t part, const Numbers& values) {
      const ReplicaDataset& shape = datasets.at(dataset);
      if (row >= shape.ranks || part >= shape.parts || count_of(values) != static_cast<std::size_t>(shape.length))
        fault("a row of " + shape.path + " is not of the checkpoint's layout");
    };
    (void)read_every_row(file, layout, 0, 1, fits, path);
  });
  const CheckpointSummary summary = summarize_checkpoint(path);
  std::vector<float> parameters(static_cast<std::size_t>(summary.parameters));
  std::vector<float> statistics(static_cast<std::size_t>(summary.statistics));
  const HostVector<float> first(parameters.data(), parameters.size()), second(statistics.data(), statistics.size());
  attempt([&] { read_checkpoint_mean(path, first, second); });
  attempt([&] { read_checkpoint_replica(path, 1, first, second); });
}

/// As inspect, watch and a run that is resumed do.
void read_metrics_file(Bytes bytes) {
  const std::string path = folder().put("metrics.h5", bytes);
  attempt([&] { (void)has_writer(path); });
  attempt([&] {
    const Hdf5Session session;
    (void)read_edges(open_hdf5(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ), 2, path);
  });
  for (const std::int64_t most_steps : {std::int64_t{2}, std::numeric_limits<std::int64_t>::max()}) {
    const MetricsTable table = read_metrics(path, most_steps);
    if (find_row(metrics(), table.metric) == nullptr) continue;
    (void)screen(view_of("run", table, 2), true);
    for (std::int64_t epoch = 0; epoch < table.epochs; ++epoch) (void)epoch_summary(table, epoch, 2);
  }
}

/// The state of a rank on its node's disk.
void read_copy(Bytes bytes) {
  const LocalCopy copy = read_local_copy(folder().put("copy.h5", bytes));
  const std::size_t parameters = copy.memory.state.parameters.size();
  for (const HostVector<float>& buffer : copy.memory.state.optimizer)
    if (buffer.size() != parameters) fault("an optimizer buffer is not as long as the parameters");
}

void read_copies_name(Bytes bytes) {
  (void)folder().put("local_copies", bytes);
  const std::string name = read_local_name({folder().path()});
  if (!name.starts_with("halograd-") || name.find('/') != std::string::npos) fault("copies would be in " + name);
}

/// A file of an import that was stopped, of three images for training and two for testing.
void resume_import(Bytes bytes) {
  ImportPlan plan;
  plan.identity = "seed";
  plan.items[0].resize(3);
  plan.items[1].resize(2);
  const ImportFile file = ImportFile::resume(folder().put("data.h5.partial", bytes), plan);
  if (file.shape().values() == 0) fault("images without values");
  for (int split = 0; split < 2; ++split)
    if (file.state().items[split] > static_cast<std::int64_t>(plan.items[split].size()))
      fault("more than the plan has");
}

/// Two bytes with the length of a cache's source.txt, that file, and that of a block of eight bytes.
void read_cache(Bytes bytes) {
  const std::string place = folder().path() + "/cache";
  fs::remove_all(place);
  fs::create_directory(place);
  const auto cache = [&] { return std::make_unique<DiskCache>(place, "set", "state\n", nullptr); };
  (void)cache();
  const std::string set = "cache/" + fs::directory_iterator(place)->path().filename().string();
  const std::size_t given = bytes.size() < 2 ? 0 : bytes[0] + 256U * bytes[1];
  const Bytes files = bytes.subspan(std::min<std::size_t>(2, bytes.size()));
  const Bytes block = files.subspan(std::min(given, files.size()));
  (void)folder().put(set + "/source.txt", files.first(files.size() - block.size()));
  (void)folder().put(set + "/block-0", block);
  std::vector<std::uint8_t> values(8);
  if (cache()->read(0, values) && !std::equal(values.begin(), values.end(), block.begin(), block.begin() + 8))
    fault("the block is another one");
}

/// An input may have base_bytes and for each byte of its own `copies` times most_packed of memory at once.
struct Target {
  const char* name;
  void (*read)(Bytes bytes);
  int copies;
};

constexpr int text = 1;    // not packed, but with a tree of tables or of JSON
constexpr int packed = 8;  // values as they lie in the file, before and after filters, converted, and those kept
constexpr int bits = 32;   // of one bit of an image come three values

constexpr Target targets[] = {
    {"run", read_run_file, text},
    {"topology", read_topology, text},
    {"cluster", [](Bytes bytes) { (void)read_cluster(folder().put("cluster.toml", bytes)); }, text},
    {"idx", read_idx, packed},
    {"cifar", read_cifar, packed},
    {"image", [](Bytes bytes) { (void)read_image(folder().put("image", bytes)); }, bits},
    {"safetensors", [](Bytes bytes) { read_state(read_safetensors(folder().put("state.safetensors", bytes))); }, text},
    {"state_dict", [](Bytes bytes) { read_state(read_state_dict_hdf5(folder().put("state.h5", bytes))); }, packed},
    {"dataset", read_hdf5, packed},
    {"import", resume_import, packed},
    {"cache", read_cache, text},
    {"checkpoint", read_checkpoint_file, packed},
    {"copy", read_copy, packed},
    {"copies_name", read_copies_name, text},
    {"metrics", read_metrics_file, packed},
};

const Target* target = nullptr;

}  // namespace

void count_memory(std::int64_t bytes) {
  const std::int64_t now = live.fetch_add(bytes) + bytes;
  const std::int64_t most = most_live;
  if (now <= most) return;
  most_live = no_bound;  // else printing might be refused as well
  std::fprintf(stderr, "fault: the reader has %lld bytes of memory at once, the bound for this input is %lld\n",
               static_cast<long long>(now), static_cast<long long>(most));
  std::abort();
}

}  // namespace halograd::fuzz

/// Takes the target from the argument --target=NAME.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace halograd::fuzz;
  for (const std::string_view argument : std::span(*argv, static_cast<std::size_t>(*argc))) {
    for (const Target& each : targets)
      if (argument == std::string("--target=") + each.name) target = &each;
  }
  if (target == nullptr) {
    std::fprintf(stderr, "fuzz: expected --target= and one of");
    for (const Target& each : targets) std::fprintf(stderr, " %s", each.name);
    std::fprintf(stderr, "\n");
    std::exit(EXIT_FAILURE);
  }
  halograd::start_kokkos(1, -1);  // copies are read into its memory
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halograd::fuzz;
  H5garbage_collect();  // else memory that HDF5 keeps from inputs before would go uncounted
  live = 0;
  most_live = base_bytes + target->copies * most_packed * static_cast<std::int64_t>(size);
  attempt([&] { target->read(Bytes(data, size)); });
  most_live = no_bound;
  return 0;
}
