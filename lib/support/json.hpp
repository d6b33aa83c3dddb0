#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

// Compiling for AMD devices, clang 15 crashes unless this was asked before a std::map of JSON values needs it.
static_assert(!std::is_copy_assignable_v<std::pair<const std::string, nlohmann::json>>);

namespace halograd {

/// A JSON value; objects keep their members in the order in which they were added. Doubles read back as they were,
/// infinities and NaN become null.
using Json = nlohmann::ordered_json;

/// The value on one line. Bytes that are no UTF-8 are replaced, because a path may hold any.
inline std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace halograd
