#include "train/confusion.hpp"

#include <numeric>

#include "nn/loss.hpp"

namespace halograd {

Confusion::Confusion(int classes)
    : classes_(classes), counts_(static_cast<std::size_t>(classes) * static_cast<std::size_t>(classes)) {}

void Confusion::add(std::span<const std::int32_t> labels, std::span<const float> scores) {
  const std::size_t width = labels.empty() ? 1 : scores.size() / labels.size();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const long predicted = predicted_class(scores.subspan(i * width, width));
    ++counts_[static_cast<std::size_t>(static_cast<long>(labels[i]) * classes_ + predicted)];
  }
}

void Confusion::sum(const Communicator& comm) {
  comm.sum(std::span(counts_));
}

long Confusion::count(int label, int predicted) const {
  return counts_[static_cast<std::size_t>(static_cast<long>(label) * classes_ + predicted)];
}

long Confusion::labels(int label) const {
  const auto row = counts_.begin() + static_cast<std::ptrdiff_t>(label) * classes_;
  return std::accumulate(row, row + classes_, 0L);
}

double Confusion::accuracy(int label) const {
  const long all = labels(label);
  return all > 0 ? static_cast<double>(count(label, label)) / static_cast<double>(all) : 0;
}

}  // namespace halograd
