#pragma once

#include <string>

namespace halograd {

/// A cluster and a job on it, as a user describes them.
struct JobDescription {
  int nodes = 1;
  int gpus_per_node = 0;
  int cores_per_node = 0;
  int ranks_per_node = 0;  ///< 0: chosen
  std::string partition, account;
  std::string time = "01:00:00";  ///< as sbatch takes it
  std::string name;               ///< of the job
  std::string config;             ///< run file, absolute
  std::string program;            ///< halograd, absolute
  std::string mpi = "pmi2";       ///< srun --mpi=
  std::string environment;        ///< a file that the job reads first; empty: none
  std::string command;            ///< that asked for the script
};

/// How the ranks lie on a node.
struct JobLayout {
  int ranks_per_node = 1;
  int cores_per_rank = 1;
  std::string reason;  ///< a sentence that gives the reason for the number
};

/// One rank per GPU; on cores, the most threads per rank, at most 8, that leave the job 4 ranks and no more than 1/16
/// of the cores idle. Throws Error where the node has fewer cores than ranks.
JobLayout layout_of(const JobDescription& job);

/// Seconds of a time limit as sbatch writes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
/// days-hours:minutes or days-hours:minutes:seconds. Throws Error for anything else, and for less than a minute.
long seconds_of(const std::string& time);

/// jobscripts/heal.sh, as it was when the program was configured (app/CMakeLists.txt).
extern const char* const heal_script;

/// The batch script, each line explained by the comment above it. Throws Error for names that Slurm has no use for.
std::string jobscript_text(const JobDescription& job);

}  // namespace halograd
