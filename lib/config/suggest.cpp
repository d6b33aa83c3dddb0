#include "config/suggest.hpp"

#include <algorithm>
#include <cstddef>

namespace halograd {

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> distance(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      int& here = distance[i][j];
      if (i == 0 || j == 0) {
        here = static_cast<int>(i + j);
        continue;
      }
      here =
          std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        here = std::min(here, distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

const std::string* nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  int least = 0;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    // A third of the letters wrong is still a slip; more is another word.
    const int slip = std::max(1, static_cast<int>(std::max(word.size(), candidate.size()) / 3));
    if (distance <= slip && (best == nullptr || distance < least)) {
      best = &candidate;
      least = distance;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nearest(word, candidates);
  return best == nullptr ? "" : "; did you mean \"" + *best + "\"?";
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace halograd
