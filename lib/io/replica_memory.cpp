#include "io/replica_memory.hpp"

#include <algorithm>
#include <span>

namespace halograd {
namespace {

template <class T>
Numbers numbers_in(std::vector<std::byte>& memory, std::size_t count) {
  memory.resize(count * sizeof(T));
  return std::span(reinterpret_cast<T*>(memory.data()), count);
}

}  // namespace

ReplicaMemory::ReplicaMemory(std::size_t parameters, std::size_t statistics, std::size_t optimizer_buffers) {
  state.parameters = buffers_.emplace_back("halograd::saved_parameters", parameters);
  state.statistics = buffers_.emplace_back("halograd::saved_statistics", statistics);
  for (std::size_t i = 0; i < optimizer_buffers; ++i) {
    state.optimizer.push_back(buffers_.emplace_back("halograd::saved_optimizer", parameters));
  }
}

Numbers ReplicaMemory::add(const std::string& name, NumberType type, std::size_t count) {
  const std::size_t part = state.averager.size();
  if (part == averager_.size()) averager_.emplace_back();  // else there is memory of a state before
  std::vector<std::byte>& memory = averager_[part];
  Numbers values;
  switch (type) {
    case NumberType::float32:
      values = numbers_in<float>(memory, count);
      break;
    case NumberType::float64:
      values = numbers_in<double>(memory, count);
      break;
    case NumberType::int64:
      values = numbers_in<std::int64_t>(memory, count);
      break;
  }
  state.averager.push_back({name, values});
  return values;
}

void ReplicaMemory::add(const SavedState& part) {
  const std::span<const std::byte> from = bytes_of(part.values);
  std::copy(from.begin(), from.end(), bytes_of(add(part.name, type_of(part.values), count_of(part.values))).begin());
}

double ReplicaMemory::bytes() const {
  double bytes = 0;
  for (const auto& buffer : buffers_) bytes += static_cast<double>(buffer.size() * sizeof(float));
  for (const SavedState& part : state.averager) bytes += static_cast<double>(bytes_of(part.values).size());
  return bytes;
}

}  // namespace halograd
