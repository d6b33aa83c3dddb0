#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace halograd {

/// Listens to the regions of a step (kernels/region.hpp) while it exists, with a fence at either end of each: seconds
/// by path, "backward/conv1/data". One at a time.
class RegionTimes {
 public:
  RegionTimes();
  ~RegionTimes();
  RegionTimes(const RegionTimes&) = delete;
  RegionTimes& operator=(const RegionTimes&) = delete;

  struct Entry {
    std::string path;
    std::string name;
    int parent = -1;              ///< index of the region around it; -1: none
    std::vector<double> seconds;  ///< in each step, without the regions inside it
  };

  /// Closes a step.
  void end_step();
  /// In the order of their first coming, those of all steps.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  using Clock = std::chrono::steady_clock;
  static void push(const char* name);
  static void pop();
  void charge();

  std::vector<Entry> entries_;
  std::vector<double> current_;  ///< seconds of each entry in this step
  int open_ = -1;                ///< the innermost open region
  int steps_ = 0;
  Clock::time_point since_;
};

}  // namespace halograd
