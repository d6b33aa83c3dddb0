#include "optimizers/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "optimizers/optimizers.hpp"

namespace halograd {
namespace {

double constant_factor(const ScheduleConfig& /*config*/, const ScheduleTime& /*time*/) {
  return 1;
}

double step_factor(const ScheduleConfig& config, const ScheduleTime& time) {
  const auto passed = std::count_if(config.milestones.begin(), config.milestones.end(),
                                    [&](double milestone) { return time.epoch >= milestone; });
  return std::pow(config.gamma, static_cast<double>(passed));
}

double cosine_factor(const ScheduleConfig& config, const ScheduleTime& time) {
  constexpr double pi = 3.141592653589793;
  return config.final_factor + (1 - config.final_factor) * 0.5 * (1 + std::cos(pi * time.share));
}

}  // namespace

const std::vector<Schedule>& schedules() {
  using Keys = SectionKeys;
  static const std::vector<Schedule> rows{
      {"constant", "the rate does not change", Keys{}, false, constant_factor},
      {"step", "the rate is multiplied by gamma at each milestone", Keys{"milestones", "gamma"}, true, step_factor},
      {"cosine", "half a cosine down to final_factor at the end (Loshchilov and Hutter, 2017, without restarts)",
       Keys{"final_factor"}, false, cosine_factor}};
  return rows;
}

double schedule_factor(const ScheduleConfig& config, std::int64_t step, std::int64_t steps_per_epoch,
                       std::int64_t epochs) {
  const Schedule& schedule = row_of(schedules(), config.name, "schedule.name");
  const double warmup = config.warmup_epochs * static_cast<double>(steps_per_epoch);
  const double now = static_cast<double>(step);
  if (now < warmup) return (now + 1) / (warmup + 1);
  const double total = std::max(1.0, static_cast<double>(steps_per_epoch * epochs) - warmup);
  return schedule.factor(config, {now / static_cast<double>(steps_per_epoch), std::min(1.0, (now - warmup) / total)});
}

}  // namespace halograd
