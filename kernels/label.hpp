#pragma once

#include <string>
#include <unordered_map>

namespace halograd {

/// The name of a kernel as Kokkos takes it, a std::string, kept: one made at each launch would allocate. `name` is a
/// literal.
inline const std::string& label(const char* name) {
  thread_local std::unordered_map<const char*, std::string> labels;
  const auto found = labels.find(name);
  return found != labels.end() ? found->second : labels.emplace(name, name).first->second;
}

}  // namespace halograd
