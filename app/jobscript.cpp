#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "app/commands.hpp"
#include "app/jobscript_text.hpp"
#include "averagers/averager_table.hpp"
#include "graph/topology.hpp"
#include "kernels/error.hpp"
#include "run/read.hpp"
#include "support/text.hpp"
#include "support/text_file.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

/// A name that Slurm takes, of whatever the run is called.
std::string job_name(std::string name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-'; };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !plain(static_cast<unsigned char>(c)); }, '_');
  return name;
}

/// Whether the run file is one that this number of ranks can train: found now, and not when the job starts days from
/// now.
void require_trainable(const RunConfig& config, const JobDescription& job) {
  const int ranks = job.nodes * layout_of(job).ranks_per_node, group = config.parallel.group_ranks();
  HALOGRAD_REQUIRE(ranks % group == 0, job.config, ": [parallel] makes groups of ", group, " ranks, but this job has ",
                   ranks, "; expected a multiple of ", group);
  const int replicas = ranks / group;
  HALOGRAD_REQUIRE(config.training.batch >= replicas, job.config, ": training.batch is ", config.training.batch,
                   " images, fewer than the ", replicas, group == 1 ? " ranks" : " groups of ranks", " of this job");
  const AveragerRow& averager = row_of(config.averager);
  if (averager.graphs != Graphs::none && !averager.of_nodes) make_topology(config.topology, replicas);
}

void write_script(const std::string& path, const std::string& text) {
  std::error_code error;
  HALOGRAD_REQUIRE(!fs::exists(fs::symlink_status(path, error)), path, ": exists already; nothing was written");
  write_text(path, text);
  fs::permissions(path, fs::perms::owner_exec, fs::perm_options::add, error);
}

void write_jobscript(JobDescription job, const std::string& output) {
  const RunConfig config = read_config(job.config);
  if (job.name.empty()) job.name = job_name(config.name);
  job.config = fs::absolute(job.config).lexically_normal().string();
  if (!job.environment.empty()) {
    HALOGRAD_REQUIRE(fs::is_regular_file(job.environment), "--environment: there is no file ", job.environment);
    job.environment = fs::absolute(job.environment).lexically_normal().string();
  }
  if (job.program.empty()) job.program = fs::read_symlink("/proc/self/exe").string();
  const std::string text = jobscript_text(job);
  require_trainable(config, job);
  if (output.empty()) {
    std::cout << text;
  } else {
    write_script(output, text);
    std::cout << "Wrote " << output << "; submit it with: sbatch " << shell_word(output) << "\n";
  }
}

}  // namespace

void add_jobscript(CLI::App& app, const std::vector<std::string>& words) {
  auto job = std::make_shared<JobDescription>();
  auto output = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("jobscript", "Write a batch script for a Slurm cluster");
  command->add_option("--config", job->config, "Run file to train")->required();
  command->add_option("--nodes", job->nodes, "Number of nodes")->required()->check(CLI::Range(1, 1000000));
  command->add_option("--cores-per-node", job->cores_per_node, "Cores per node, as Slurm counts its CPUs")
      ->required()
      ->check(CLI::Range(1, 4096));
  command->add_option("--gpus-per-node", job->gpus_per_node, "GPUs per node; each gets one rank")
      ->check(CLI::Range(0, 64));
  command->add_option("--ranks-per-node", job->ranks_per_node, "Ranks per node (default: chosen from cores or GPUs)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--time", job->time, "Time limit: MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS");
  command->add_option("--partition", job->partition, "Slurm partition");
  command->add_option("--account", job->account, "Slurm account");
  command->add_option("--name", job->name, "Name of the job (default: the run's name)");
  command->add_option("--mpi", job->mpi, "Value for srun --mpi=: pmi2 for MPICH, pmix for Open MPI");
  command->add_option("--environment", job->environment, "Shell file that the job reads first: modules, paths");
  command->add_option("--program", job->program, "halograd program that the job runs (default: this one)");
  command->add_option("--output", *output, "File to write, which must not exist yet (default: standard output)");
  for (const std::string& word : words) job->command += (job->command.empty() ? "" : " ") + shell_word(word);
  command->callback([job, output] { write_jobscript(*job, *output); });
}

}  // namespace halograd
