#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "hdf5/files.hpp"
#include "io/formats.hpp"
#include "io/metrics_read.hpp"
#include "io/summary.hpp"
#include "kernels/error.hpp"
#include "support/json.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

void print_json(const CheckpointSummary& summary) {
  Json object;
  object["format"] = checkpoint_format;
  object["step"] = summary.header.step;
  object["epoch"] = summary.header.epoch;
  object["step_in_epoch"] = summary.header.step_in_epoch;
  object["ranks"] = summary.header.ranks;
  object["network"] = summary.header.network;
  object["averager"] = summary.header.averager;
  object["topology"] = summary.header.topology;
  object["config"] = summary.header.config;
  object["versions"] = summary.header.versions;
  object["parameters"] = summary.parameters;
  object["optimizer_buffers"] = summary.optimizer_buffers;
  object["statistics"] = summary.statistics;
  object["averager_state"] = summary.averager_state;
  std::vector<Json> tensors;
  for (const TensorSummary& tensor : summary.tensors) {
    Json& entry = tensors.emplace_back();
    entry["layer"] = tensor.tensor.layer;
    entry["tensor"] = tensor.tensor.name;
    entry["kind"] = tensor.statistic ? "statistic" : "parameter";
    entry["extents"] = tensor.tensor.extents;
    entry["norm"] = tensor.norm;
  }
  object["mean"] = tensors;
  std::vector<double> norms, distances;
  for (const ReplicaSummary& replica : summary.replicas) {
    norms.push_back(replica.norm);
    distances.push_back(replica.distance);
  }
  object["norm"] = norms;
  object["distance"] = distances;
  object["consensus_distance"] = summary.consensus_distance;
  object["damaged"] = summary.damaged;
  std::printf("%s\n", json_text(object).c_str());
}

void print_table(const std::string& path, const CheckpointSummary& summary) {
  const auto line = [](const char* name, const std::string& value) {
    std::printf("  %-20s %s\n", name, value.c_str());
  };
  std::printf("checkpoint %s\n", path.c_str());
  line("network", summary.header.network);
  line("step", std::to_string(summary.header.step));
  line("epoch",
       std::to_string(summary.header.epoch) + ", and " + std::to_string(summary.header.step_in_epoch) + " steps");
  line("ranks", std::to_string(summary.header.ranks));
  line("averager", summary.header.averager);
  line("topology", summary.header.topology);
  line("parameters", std::to_string(summary.parameters));
  line("optimizer buffers", std::to_string(summary.optimizer_buffers));
  line("statistics", std::to_string(summary.statistics));
  if (!summary.averager_state.empty()) line("averager's state", listed(summary.averager_state));
  line("written by", summary.header.versions);
  std::printf("\n  %-20s %-18s %-20s %14s\n", "layer", "tensor", "extents", "norm of mean");
  for (const TensorSummary& tensor : summary.tensors) {
    std::printf("  %-20s %-18s %-20s %14.6g\n", tensor.tensor.layer.c_str(), tensor.tensor.name.c_str(),
                (tensor.tensor.extents.empty() ? "1" : listed(tensor.tensor.extents, " x ")).c_str(), tensor.norm);
  }
  std::printf("\n  %-20s %14s %20s\n", "replica", "norm", "distance from mean");
  for (std::size_t rank = 0; rank < summary.replicas.size(); ++rank) {
    std::printf("  %-20zu %14.6g %20.6g\n", rank, summary.replicas[rank].norm, summary.replicas[rank].distance);
  }
  std::printf("\n  %-20s %g\n", "consensus distance", summary.consensus_distance);
  line("checksums", summary.damaged.empty() ? "correct" : "wrong");
  for (const std::string& object : summary.damaged) line("", object);
}

void inspect_checkpoint(const std::string& path, bool as_json) {
  const CheckpointSummary summary = summarize_checkpoint(path);
  if (as_json) {
    print_json(summary);
  } else {
    print_table(path, summary);
  }
  HALOGRAD_REQUIRE(summary.damaged.empty(), path, ": is damaged: ", summary.damaged.size(),
                   " checksums are wrong, the first for ", summary.damaged.front());
}

void inspect_metrics(const std::string& path, bool as_json) {
  const MetricsTable table = read_metrics(path);
  // the last row of each column, which is a number a rank or one number
  const auto last_row = [&](const std::string& column) {
    const std::vector<double>& values = table.columns.at(column);
    const std::int64_t rows = column.rfind("/step/", 0) == 0 ? table.steps : table.epochs;
    return rows == 0
               ? std::vector<double>{}
               : std::vector<double>(values.end() - static_cast<std::ptrdiff_t>(values.size()) / rows, values.end());
  };
  if (as_json) {
    Json object, last = Json::object();
    object["format"] = metrics_format;
    object["ranks"] = table.ranks;
    object["steps"] = table.steps;
    object["epochs"] = table.epochs;
    for (const auto& [column, values] : table.columns) last[column] = last_row(column);
    object["last"] = last;
    std::printf("%s\n", json_text(object).c_str());
    return;
  }
  std::printf("metrics %s\n  %d ranks, %lld steps, %lld epochs\n\n  %-28s last values, one per rank\n", path.c_str(),
              table.ranks, static_cast<long long>(table.steps), static_cast<long long>(table.epochs), "quantity");
  for (const auto& [column, values] : table.columns) {
    std::printf("  %-28s", column.c_str());
    for (const double value : last_row(column)) std::printf(" %.6g", value);
    std::printf("\n");
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  struct Options {
    std::string path;
    bool as_json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a checkpoint or a metrics file holds");
  command->add_option("file", options->path, "Checkpoint or metrics file (HDF5)")->required();
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->callback([options] {
    const std::string format = read_format(options->path);
    if (format == checkpoint_format) return inspect_checkpoint(options->path, options->as_json);
    if (format == metrics_format) return inspect_metrics(options->path, options->as_json);
    fail(options->path, ": root attribute 'format' is '", format, "', expected '", checkpoint_format, "' or '",
         metrics_format, "'");
  });
}

}  // namespace halograd
