#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"

namespace halograd {

/// Host memory of one rank's state, which checkpoints are written from or read into.
class ReplicaMemory {
 public:
  ReplicaMemory(std::size_t parameters, std::size_t statistics, std::size_t optimizer_buffers);
  ReplicaMemory(ReplicaMemory&&) = default;  // a copy's state would refer to what it was copied from
  ReplicaMemory& operator=(ReplicaMemory&&) = default;

  /// Room for a part of the averager's state, behind those that state.averager has.
  Numbers add(const std::string& name, NumberType type, std::size_t count);
  void add(const SavedState& part);  ///< with its values
  [[nodiscard]] double bytes() const;

  ReplicaState state;  ///< refers to it

 private:
  std::vector<Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::HostSpace>> buffers_;
  std::vector<std::vector<std::byte>> averager_;
};

}  // namespace halograd
