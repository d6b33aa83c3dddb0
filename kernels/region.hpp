#pragma once

#include <Kokkos_Core.hpp>

#include <string>

namespace halograd {

/// A named stretch of a step, from here to the end of the scope, for whoever listens: `halograd benchmark --layers` and
/// every Kokkos tool (KOKKOS_TOOLS_LIBS). Where nobody does it costs a comparison. Names that outlive the call, or of
/// at most 15 letters, allocate nothing.
class Region {
 public:
  explicit Region(const std::string& name) { Kokkos::Profiling::pushRegion(name); }
  ~Region() { Kokkos::Profiling::popRegion(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
};

}  // namespace halograd
