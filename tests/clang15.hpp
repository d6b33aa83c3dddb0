#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

// Compiling for AMD devices, clang 15 crashes where a std::map of classes is the first to ask whether its pairs can be
// assigned (libstdc++ 12, C++20). Here it is asked before, outside any function: clang remembers the answer.
static_assert(!std::is_copy_assignable_v<std::pair<const std::string, testing::internal::CodeLocation>>);

// Braces around the members of a base, which g++ does without.
#pragma clang diagnostic ignored "-Wmissing-braces"
