#pragma once

#include <string>

#include "convert/state_dict.hpp"

namespace halograd {

inline constexpr const char* state_dict_format = "halograd state dictionary";
inline constexpr std::int64_t state_dict_format_version = 1;

/// One dataset a tensor, called by its PyTorch name, at the root of a new HDF5 file.
void write_state_dict_hdf5(const std::string& path, const StateDict& state, const std::string& network);

/// Reads such a file; datasets of any float or integer type. Throws Error naming file and dataset.
StateDict read_state_dict_hdf5(const std::string& path);

}  // namespace halograd
