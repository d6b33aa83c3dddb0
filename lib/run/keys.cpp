#include "run/keys.hpp"

#include <algorithm>
#include <string_view>

namespace halograd {

std::string graphs_with(const char* key) {
  std::string names;
  for (const TopologyRow& row : topologies()) {
    const auto is_key = [&](std::string_view other) { return other == key; };
    if (std::none_of(row.keys->begin(), row.keys->end(), is_key)) continue;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names + ": ";
}

std::string readers(const char* key) {
  std::string names;
  for (const AveragerRow& row : averagers()) {
    if (reads(row, key)) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names + ": ";
}

}  // namespace halograd
