#include "kernels/error.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>

namespace halograd::error_test {
namespace {

TEST(Error, SaysWhatHasRunOut) {
  EXPECT_EQ(message_of(Error("as it is")), "as it is");
  EXPECT_EQ(message_of(std::bad_alloc()), "out of memory");
  EXPECT_EQ(message_of(std::runtime_error("")), "unknown error");
  const std::system_error no_thread(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_EQ(message_of(no_thread).find("a thread cannot be started"), 0U);
  EXPECT_EQ(message_of(std::system_error(std::make_error_code(std::errc::io_error))).find("thread"), std::string::npos);
}

}  // namespace
}  // namespace halograd::error_test
