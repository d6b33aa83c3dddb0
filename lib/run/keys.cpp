#include "run/keys.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "support/text.hpp"

namespace halograd {

std::string to_string(const Allowed& allowed) {
  if (!allowed.choices.empty()) {
    std::vector<std::string> quoted;
    for (const auto& choice : allowed.choices) quoted.push_back("\"" + choice + "\"");
    return "one of " + listed(quoted);
  }
  if (allowed.plain_name) return "letters, digits, \"_\", \"-\" and, inside, \".\"";
  std::string text;
  if (std::isfinite(allowed.least)) {
    text = (allowed.least_itself ? "at least " : "above ") + short_number(allowed.least);
  }
  if (std::isfinite(allowed.most)) {
    if (!text.empty()) text += " and ";
    text += (allowed.most_itself ? "at most " : "below ") + short_number(allowed.most);
  }
  return text;
}

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
