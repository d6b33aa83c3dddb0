#include "config/allowed.hpp"

#include <cmath>

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

}  // namespace halograd
