#pragma once

#include <cstdint>

namespace halograd {

/// The root attributes `format` and `format_version` of the files that this program writes (docs/file-formats.md). The
/// version grows when a reader of the older one would misread the file.
inline constexpr const char* checkpoint_format = "halograd checkpoint";
inline constexpr std::int64_t checkpoint_format_version = 2;
inline constexpr const char* metrics_format = "halograd metrics";
inline constexpr std::int64_t metrics_format_version = 1;
inline constexpr const char* predictions_format = "halograd predictions";
inline constexpr std::int64_t predictions_format_version = 1;
inline constexpr const char* objects_format = "halograd objects";
inline constexpr std::int64_t objects_format_version = 1;

}  // namespace halograd
