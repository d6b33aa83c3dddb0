#include "mpi/kept_with.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "mpi/communicator.hpp"

namespace halograd::kept_with_mpi_test {
namespace {

struct Counted {
  explicit Counted(int& alive) : count(&alive) { ++*count; }
  Counted(Counted&& other) noexcept : count(other.count) { ++*count; }
  ~Counted() { --*count; }
  int* count;
};

TEST(KeptWith, IsMadeOncePerCommunicatorAndEndsWithIt) {
  int alive = 0, made = 0;
  const auto get = [&](MPI_Comm comm) -> Counted& {
    return kept_with(comm, [&] {
      ++made;
      return Counted(alive);
    });
  };
  std::optional<OwnedComm> first(MPI_COMM_WORLD);
  Counted& kept = get(first->handle());
  EXPECT_EQ(&get(first->handle()), &kept);
  EXPECT_EQ(made, 1);
  std::optional<OwnedComm> second(first->handle());  // does not inherit it
  EXPECT_NE(&get(second->handle()), &kept);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(alive, 2);
  first.reset();
  EXPECT_EQ(alive, 1);
  second.reset();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace halograd::kept_with_mpi_test
