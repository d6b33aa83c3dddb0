#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "data/dataset.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// Says on standard error, at once and each sentence once, what the first rank of a node meets: its other ranks share
/// the disk and meet the same.
inline Warn node_warning(const Communicator& comm) {
  if (comm.node_rank() != 0) return {};
  struct Said {
    std::mutex mutex;
    std::set<std::string> texts;
  };
  return [said = std::make_shared<Said>(), rank = comm.rank()](const std::string& text) {
    const std::lock_guard<std::mutex> lock(said->mutex);
    if (said->texts.insert(text).second) std::fprintf(stderr, "halograd: warning: rank %d: %s\n", rank, text.c_str());
  };
}

}  // namespace halograd
