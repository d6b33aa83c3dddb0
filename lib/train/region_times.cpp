#include "train/region_times.hpp"

#include <Kokkos_Core.hpp>

#include "kernels/error.hpp"

namespace halograd {
namespace {

RegionTimes* listening = nullptr;  // Kokkos' callbacks carry no context

}  // namespace

RegionTimes::RegionTimes() {
  HALOGRAD_REQUIRE(listening == nullptr, "RegionTimes: another instance is already listening");
  listening = this;
  Kokkos::Tools::Experimental::set_push_region_callback(push);
  Kokkos::Tools::Experimental::set_pop_region_callback(pop);
}

RegionTimes::~RegionTimes() {
  Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  Kokkos::Tools::Experimental::set_pop_region_callback(nullptr);
  listening = nullptr;
}

/// Gives the time since the last change of region to the one that is open.
void RegionTimes::charge() {
  Kokkos::fence();
  const Clock::time_point now = Clock::now();
  if (open_ >= 0) current_[static_cast<std::size_t>(open_)] += std::chrono::duration<double>(now - since_).count();
  since_ = now;
}

void RegionTimes::push(const char* name) {
  RegionTimes& times = *listening;
  times.charge();
  const int count = static_cast<int>(times.entries_.size());
  int index = 0;
  while (index < count && (times.entries_[index].parent != times.open_ || times.entries_[index].name != name)) ++index;
  if (index == count) {
    const std::string around = times.open_ < 0 ? "" : times.entries_[times.open_].path + "/";
    times.entries_.push_back({around + name, name, times.open_, std::vector<double>(times.steps_, 0.0)});
    times.current_.push_back(0);
  }
  times.open_ = index;
  times.since_ = Clock::now();  // what finding the entry took is nobody's
}

void RegionTimes::pop() {
  RegionTimes& times = *listening;
  times.charge();
  if (times.open_ >= 0) times.open_ = times.entries_[times.open_].parent;
}

void RegionTimes::end_step() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].seconds.push_back(current_[i]);
    current_[i] = 0;
  }
  ++steps_;
}

}  // namespace halograd
