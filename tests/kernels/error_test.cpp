#include "kernels/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "support/system_reason.hpp"

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

TEST(Error, TellsADiskThatFailsFromOneThatItsUserIsToMend) {
  const auto foreign = [](int number) {
    try {
      fail("a file: ", system_reason(number));
    } catch (const Error& error) {
      return foreign_of(error);
    }
  };
  const auto foreign_to_filesystem = [](int number) {
    return foreign_of(std::filesystem::filesystem_error("", std::error_code(number, std::system_category())));
  };
  for (const int number : {ENOMEM, EIO, ESTALE, ETIMEDOUT, ENXIO, EREMOTEIO, ENODEV, EHOSTDOWN, ENOTCONN}) {
    EXPECT_EQ(foreign(number), Foreign::this_rank) << number;
    EXPECT_EQ(foreign_to_filesystem(number), Foreign::this_rank) << number;
  }
  for (const int number : {ENOSPC, EDQUOT, EACCES, EPERM, EROFS, ENOENT, EMFILE, ENAMETOOLONG}) {
    EXPECT_EQ(foreign(number), Foreign::no_rank) << number;
    EXPECT_EQ(foreign_to_filesystem(number), Foreign::no_rank) << number;
  }
}

}  // namespace
}  // namespace halograd::error_test
