#pragma once

#include <string>
#include <vector>

/// Words for messages about names that are not known.
namespace halograd {

/// Letters to insert, delete, replace or swap with their neighbour to make one word the other.
int edit_distance(const std::string& a, const std::string& b);

/// The candidate that `word` is a slip of; nullptr where none is near.
const std::string* nearest(const std::string& word, const std::vector<std::string>& candidates);

/// `; did you mean "epochs"?` with the nearest candidate; empty where none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

/// a, b, c
std::string listed(const std::vector<std::string>& words);

}  // namespace halograd
