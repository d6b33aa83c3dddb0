#pragma once

#include "config/network_config.hpp"
#include "config/table_reader.hpp"

namespace halograd {

/// Reads an entry of [[network.layer]]. Throws Error also for a key that layers of its type do not take.
void read_entry(TableReader& reader, LayerConfig& layer);

}  // namespace halograd
