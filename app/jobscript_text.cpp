#include "app/jobscript_text.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

constexpr int most_threads = 8;     // a small network's layers are too small for more
constexpr int wanted_ranks = 4;     // with fewer there is little to average
constexpr int idle_share = 16;      // one core in this many may stay idle
constexpr long save_seconds = 120;  // before the end: for the step in hand and the checkpoint

void require_name(const std::string& value, const char* option) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string("_.,:@+-").find(static_cast<char>(c)) != std::string::npos;
  };
  HALOGRAD_REQUIRE(std::all_of(value.begin(), value.end(), plain), option, " is '", value,
                   "', expected letters, digits and _ . , : @ + - alone");
}

/// Collects the script's lines with what explains them.
class Script {
 public:
  void comment(const std::string& text) { lines_ << "# " << text << "\n"; }
  void line(const std::string& text) { lines_ << text << "\n"; }
  void option(const std::string& text, const std::string& why) {
    comment(why);
    line("#SBATCH --" + text);
  }
  [[nodiscard]] std::string text() const { return lines_.str(); }

 private:
  std::ostringstream lines_;
};

void add_options(Script& script, const JobDescription& job, const JobLayout& layout) {
  script.option("job-name=" + job.name, "Name in squeue and of the log.");
  if (!job.account.empty()) script.option("account=" + job.account, "Account to which the hours are charged.");
  if (!job.partition.empty()) script.option("partition=" + job.partition, "Group of nodes to run on.");
  script.option("nodes=" + std::to_string(job.nodes), "Number of nodes.");
  if (job.gpus_per_node > 0)
    script.option("gpus-per-node=" + std::to_string(job.gpus_per_node), "GPUs of each node, all seen by its ranks.");
  script.option("ntasks-per-node=" + std::to_string(layout.ranks_per_node), "Ranks on each node: " + layout.reason);
  script.option("cpus-per-task=" + std::to_string(layout.cores_per_rank),
                "Cores of each rank: " + std::to_string(layout.ranks_per_node) + " x " +
                    std::to_string(layout.cores_per_rank) + " of the node's " + std::to_string(job.cores_per_node) +
                    ".");
  script.option("time=" + job.time, "Time limit. A run that takes longer is saved, queued again and resumed.");
  const long warning = std::min(save_seconds, seconds_of(job.time) / 4);
  script.option(
      "signal=USR1@" + std::to_string(warning),
      "Slurm signals the ranks this many seconds before the limit; halograd then saves and ends with status 75.");
  script.option("requeue", "The job may be queued again.");
  script.option("no-kill", "A node that goes down does not end the job, which goes on without it.");
  script.option("output=%x-%j.out", "Log: name and number of the job.");
  script.option("open-mode=append", "A job that was queued again continues the same log.");
}

void add_commands(Script& script, const JobDescription& job, const JobLayout& layout) {
  script.line("");
  script.comment("End at the first error, and at variables that are not set.");
  script.line("set -euo pipefail");
  if (!job.environment.empty()) {
    script.comment("The program's environment: modules and paths.");
    script.line("# shellcheck source=/dev/null");
    script.line(". " + shell_word(job.environment));
  }
  script.comment("Each rank has as many threads as cores.");
  script.line("export OMP_NUM_THREADS=" + std::to_string(layout.cores_per_rank));
  script.comment(
      "srun starts the ranks: how it tells MPI about them (srun --mpi=list), the cores of each, and that each is");
  script.comment(
      "bound to its own. A rank that crashed ends the others after 60 s; ranks that end with 75 do so in turn,");
  script.comment("which is no reason to kill the rest.");
  script.line("launch() {");
  script.line("  srun --mpi=" + job.mpi + " --cpus-per-task=" + std::to_string(layout.cores_per_rank) +
              " --cpu-bind=cores --kill-on-bad-exit=0 --wait=60 \"$@\"");
  script.line("}");
  script.line("");
  const std::string heal = heal_script;
  script.line(heal.substr(heal.find('\n') + 1));  // without the line for shellcheck
  script.comment("The last line trains. --resume continues from the newest checkpoint, if there is one.");
  script.line("heal launch \\");
  script.line("  " + shell_word(job.program) + " train " + shell_word(job.config) + " --resume");
}

}  // namespace

JobLayout layout_of(const JobDescription& job) {
  JobLayout layout;
  const int cores = job.cores_per_node;
  if (job.ranks_per_node > 0) {
    layout.ranks_per_node = job.ranks_per_node;
    layout.reason = "as requested.";
  } else if (job.gpus_per_node > 0) {
    layout.ranks_per_node = job.gpus_per_node;
    layout.reason = "one per GPU.";
  } else {
    // All cores at work, or else nearly all.
    int threads = 0;
    for (const auto& [idle, fewest] : {std::pair(0, most_threads / 2), std::pair(cores / idle_share, 1)}) {
      for (int candidate = std::min(most_threads, cores); candidate >= fewest && threads == 0; --candidate) {
        const long ranks = static_cast<long>(job.nodes) * (cores / candidate);
        if (ranks >= wanted_ranks && cores % candidate <= idle) threads = candidate;
      }
    }
    threads = std::max(threads, 1);
    layout.ranks_per_node = cores / threads;
    layout.reason = "at most " + std::to_string(most_threads) + " cores each, with few cores idle.";
  }
  HALOGRAD_REQUIRE(layout.ranks_per_node <= cores, counted(layout.ranks_per_node, "rank"), " on a node of ",
                   counted(cores, "core"), "; expected at least one core per rank");
  layout.cores_per_rank = cores / layout.ranks_per_node;
  return layout;
}

long seconds_of(const std::string& time) {
  const auto refuse = [&] {
    fail("--time is '", time, "', expected MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS");
  };
  // numbers with what separates them
  std::vector<long> numbers;
  std::string separators;
  for (std::size_t at = 0; at < time.size(); ++at) {
    const std::size_t end = std::min(time.find_first_not_of("0123456789", at), time.size());
    if (end == at || end - at > 7) refuse();
    numbers.push_back(std::stol(time.substr(at, end - at)));
    if (end < time.size()) separators += time[end];
    if (end + 1 == time.size()) refuse();
    at = end;
  }
  const bool days = separators.rfind('-', 0) == 0;
  const std::string colons = days ? separators.substr(1) : separators;
  if (numbers.empty() || colons.size() > 2 || colons.find_first_not_of(':') != std::string::npos) refuse();
  long seconds = 0;
  if (days) {
    numbers.resize(4, 0);
    seconds = ((numbers[0] * 24 + numbers[1]) * 60 + numbers[2]) * 60 + numbers[3];
  } else if (numbers.size() == 3) {
    seconds = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2];
  } else {
    numbers.resize(2, 0);
    seconds = numbers[0] * 60 + numbers[1];
  }
  HALOGRAD_REQUIRE(seconds >= 60, "--time is '", time, "', expected at least a minute");
  return seconds;
}

std::string jobscript_text(const JobDescription& job) {
  require_name(job.partition, "--partition");
  require_name(job.account, "--account");
  require_name(job.mpi, "--mpi");
  require_name(job.name, "--name");
  const JobLayout layout = layout_of(job);
  Script script;
  script.line("#!/usr/bin/env bash");
  script.comment("Trains " + job.config + " on " + counted(job.nodes * layout.ranks_per_node, "rank") + ": " +
                 counted(job.nodes, "node") + ", " + counted(layout.ranks_per_node, "rank") + " on each, " +
                 counted(layout.cores_per_rank, "core") + " per rank.");
  script.comment("Written by: " + job.command);
  script.comment("Submit it with sbatch from the folder in which the run is to be kept.");
  script.line("");
  add_options(script, job, layout);
  add_commands(script, job, layout);
  return script.text();
}

}  // namespace halograd
