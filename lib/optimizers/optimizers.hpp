#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/training_config.hpp"
#include "support/table.hpp"

/// Optimizers and schedules, one row each. A new optimizer is a class and a row in optimizer.cpp; a new schedule is a
/// function and a row in schedule.cpp.
namespace halograd {

class Optimizer;

using SectionKeys = std::vector<std::string_view>;

struct OptimizerType {
  const char* name;
  Fact<const char*> meaning;
  Fact<SectionKeys> keys;             ///< of [optimizer] that it reads beside learning_rate and weight_decay
  Fact<bool> state_only_of_momentum;  ///< without momentum it has no state
  Fact<bool> keeps_squares;           ///< of gradients in its state, which must not become negative
  Fact<std::unique_ptr<Optimizer> (*)(const OptimizerConfig& config, std::size_t parameters)> make;
};
const std::vector<OptimizerType>& optimizers();

/// Where a training is: what a schedule's factor may depend on after the warm-up.
struct ScheduleTime {
  double epoch;  ///< epochs done, with the fraction of this one
  double share;  ///< steps done since the warm-up, of all after it: 0 to 1
};

struct Schedule {
  const char* name;
  Fact<const char*> meaning;
  Fact<SectionKeys> keys;  ///< of [schedule] that it reads beside warmup_epochs
  Fact<bool> needs_milestones;
  Fact<double (*)(const ScheduleConfig& config, const ScheduleTime& time)> factor;
};
const std::vector<Schedule>& schedules();

/// The names of the rows that read a key, "adam, adamw".
template <class Table>
std::string readers_of(const Table& table, std::string_view key) {
  std::string names;
  for (const auto& row : table) {
    for (const std::string_view each : *row.keys) {
      if (each == key) names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
  }
  return names;
}

}  // namespace halograd
