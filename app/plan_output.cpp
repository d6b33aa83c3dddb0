#include "app/plan_output.hpp"

#include <algorithm>
#include <cstdio>

#include "support/json.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

constexpr std::size_t shown_candidates = 10;

std::string graph_of(const Candidate& candidate) {
  return candidate.has_graph ? candidate.topology.kind : "-";
}

/// What the averager's name leaves open: "int8", "top_k 0.1", "overlap", "free".
std::string way_of(const Candidate& candidate) {
  const AveragerConfig standard;
  if (candidate.free) return "free";
  if (candidate.averager.overlap) return "overlap";
  std::string text = candidate.averager.codec;
  if (candidate.averager.kept_share != standard.kept_share) text += " " + short_number(candidate.averager.kept_share);
  return text;
}

void print_row(const Candidate& each, bool is_pick) {
  std::printf("%c%-13s %-21s %-10s %6d %4g %8.3g %12.3g %10.3f %9.1f %% %11.0f %12s%s%s\n", is_pick ? '*' : ' ',
              each.averager.name.c_str(), graph_of(each).c_str(), way_of(each).c_str(), each.batch, each.step.period,
              each.mixing, 1e-6 * each.step.bytes, 1e3 * each.step.step_seconds, 100 * each.step.efficiency,
              each.images_per_second, human_bytes(each.node_memory).c_str(), each.refusal == nullptr ? "" : "  ",
              each.refusal == nullptr ? "" : each.refusal);
}

Json json_of(const Candidate& candidate, int replicas) {
  Json object;
  object["averager"] = candidate.averager.name;
  object["topology"] = graph_of(candidate);
  object["way"] = way_of(candidate);
  object["batch_per_replica"] = candidate.batch;
  object["period"] = candidate.step.period;
  object["mixing"] = candidate.mixing;
  object["bytes_per_step"] = candidate.step.bytes;
  object["exchange_seconds"] = candidate.step.exchange_seconds;
  object["step_seconds"] = candidate.step.step_seconds;
  object["efficiency"] = candidate.step.efficiency;
  object["images_per_second"] = candidate.images_per_second;
  object["node_memory_bytes"] = candidate.node_memory;
  object["refused"] = candidate.refusal == nullptr ? Json() : Json(candidate.refusal);
  Json keys;
  for (const KeyValue& each : keys_of(candidate, replicas)) keys[each.key] = each.value;
  object["keys"] = keys;
  return object;
}

}  // namespace

void PlanOutput::print(bool all) const {
  std::vector<const Candidate*> rows;
  for (const Candidate& each : candidates) {
    if (all || (each.batch == pick.batch && each.refusal == nullptr)) rows.push_back(&each);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return a->images_per_second > b->images_per_second; });
  const std::size_t found = rows.size();
  if (!all && found > shown_candidates) {
    rows.resize(shown_candidates);
    if (std::find(rows.begin(), rows.end(), &pick) == rows.end()) rows.back() = &pick;
  }
  std::printf("\n %-13s %-21s %-10s %6s %4s %8s %12s %10s %11s %11s %12s\n", "averager", "topology", "way", "batch",
              "H", "mixing", "MB sent/step", "step ms", "efficiency", "images/s", "memory/node");
  for (const Candidate* each : rows) print_row(*each, each == &pick);
  if (rows.size() < found) {
    std::printf(
        "%zu of %zu ways to average with a batch of %d per replica; --all shows all, and why some are not taken\n",
        rows.size(), found, pick.batch);
  }
  double allreduce = 0;
  for (const Candidate& each : candidates) {
    if (each.price == Price::none && each.batch == pick.batch) allreduce = each.images_per_second;
  }
  std::printf("\nRecommended (* above)\n");
  for (const KeyValue& each : keys_of(pick, job.replicas()))
    std::printf("  %s = %s\n", each.key.c_str(), each.value.c_str());
  if (job.replicas() == 1) {
    std::printf("One replica has nothing to average: the model predicts %.0f images/s with any averager.\n",
                pick.images_per_second);
  } else {
    std::printf(
        "The model predicts %.0f images/s, %.1f %% of what the ranks compute alone, and %+.1f %% beside allreduce.\n",
        pick.images_per_second, 100 * pick.step.efficiency, 100 * (pick.images_per_second / allreduce - 1));
  }
  std::printf("training.batch is at most %d: %s\n", bound.images, bound.reason.c_str());
  if (pick.batch * job.replicas() > bound.images) {
    std::printf("NOTE: even the smallest batch measured is more than that over %s\n",
                counted(job.replicas(), "replica").c_str());
  }
  if (!checkpoints) return;
  std::printf(
      "Checkpoints of %s, %s s each: every %s s by Daly (%s s by Young), output.checkpoint_steps = %ld or "
      "checkpoint_minutes = %s; with a failure every %s h, %.2f %% of the time is lost.\n",
      human_bytes(checkpoints->bytes).c_str(), significant(checkpoints->cost).c_str(),
      significant(checkpoints->daly).c_str(), significant(checkpoints->young).c_str(), checkpoints->steps,
      significant(checkpoints->daly / 60).c_str(), significant(checkpoints->mttf / 3600).c_str(),
      100 * checkpoints->lost);
}

void PlanOutput::print_json() const {
  Json object;
  object["ranks"] = job.ranks;
  object["ranks_per_node"] = job.machine.ranks_per_node;
  object["group_ranks"] = job.group_ranks;
  object["latency_seconds"] = job.machine.latency;
  object["bandwidth_bytes"] = job.machine.bandwidth;
  object["transport_seconds_per_byte"] = job.machine.transport;
  object["memory_bandwidth_bytes"] = job.machine.memory_bandwidth;
  object["spread"] = job.uneven.spread;
  object["slowest"] = job.uneven.slowest;
  object["parameters"] = job.parameters;
  object["most_batch"] = bound.images;
  object["most_batch_reason"] = bound.reason;
  std::vector<Json> batches, rows;
  for (const MeasuredBatch& each : job.batches) {
    Json batch;
    batch["batch_per_replica"] = each.batch;
    batch["step_seconds"] = each.step_seconds;
    batch["memory_bytes"] = each.memory_bytes;
    if (job.group_ranks > 1) {
      batch["group_bytes"] = each.group.bytes;
      batch["group_exchanges"] = each.group.exchanges;
    }
    batches.push_back(batch);
  }
  for (const Candidate& each : candidates) rows.push_back(json_of(each, job.replicas()));
  if (checkpoints) {
    Json plan;
    plan["mttf_seconds"] = checkpoints->mttf;
    plan["bytes"] = checkpoints->bytes;
    plan["checkpoint_seconds"] = checkpoints->cost;
    plan["young_seconds"] = checkpoints->young;
    plan["daly_seconds"] = checkpoints->daly;
    plan["steps"] = checkpoints->steps;
    plan["lost_share"] = checkpoints->lost;
    object["checkpoints"] = plan;
  }
  object["batches"] = batches;
  object["candidates"] = rows;
  object["recommended"] = json_of(pick, job.replicas());
  std::printf("%s\n", json_text(object).c_str());
}

}  // namespace halograd
