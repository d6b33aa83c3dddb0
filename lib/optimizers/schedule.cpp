#include "optimizers/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"

namespace halograd {

double schedule_factor(const ScheduleConfig& config, std::int64_t step, std::int64_t steps_per_epoch,
                       std::int64_t epochs) {
  const double warmup = config.warmup_epochs * static_cast<double>(steps_per_epoch);
  const double now = static_cast<double>(step);
  if (now < warmup) return (now + 1) / (warmup + 1);
  if (config.name == "constant") return 1;
  if (config.name == "step") {
    const double epoch = now / static_cast<double>(steps_per_epoch);
    const auto passed = std::count_if(config.milestones.begin(), config.milestones.end(),
                                      [&](double milestone) { return epoch >= milestone; });
    return std::pow(config.gamma, static_cast<double>(passed));
  }
  if (config.name == "cosine") {
    constexpr double pi = 3.141592653589793;
    const double total = std::max(1.0, static_cast<double>(steps_per_epoch * epochs) - warmup);
    const double progress = std::min(1.0, (now - warmup) / total);
    return config.final_factor + (1 - config.final_factor) * 0.5 * (1 + std::cos(pi * progress));
  }
  fail("schedule.name: there is no schedule '", config.name, "' (constant, step, cosine)");
}

}  // namespace halograd
