#include "window/message_transport.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"
#include "window/progress_thread.hpp"

namespace {
int values_begun = 0;
}  // namespace

// The profiling interface's: counts.
extern "C" int MPI_Issend(const void* data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  ++values_begun;
  return PMPI_Issend(data, n, type, to, tag, comm, request);
}

namespace halograd::message_transport_mpi_test {
namespace {

constexpr std::size_t values_at = 64;

/// The memory that a rank is written to: numbers, then values.
class Region {
 public:
  explicit Region(std::size_t floats) : memory_((values_at + floats * sizeof(float)) / 8) {}
  std::byte* begin() { return reinterpret_cast<std::byte*>(memory_.data()); }
  [[nodiscard]] std::int64_t number(std::size_t i) {
    return std::atomic_ref<std::int64_t>(memory_[i]).load(std::memory_order_acquire);
  }
  [[nodiscard]] float value(std::size_t i) const {
    return reinterpret_cast<const float*>(memory_.data())[values_at / sizeof(float) + i];
  }

 private:
  std::vector<std::int64_t> memory_;
};

class Messages : public testing::TestWithParam<bool> {};

// Each rank writes to the next one, with and without a thread that receives meanwhile.
TEST_P(Messages, ANumberComesAfterAllThatWasWrittenBeforeIt) {
  constexpr std::size_t floats = 100'000, piece = 1'000;
  const int next = (this_rank() + 1) % all_ranks(), former = (this_rank() + all_ranks() - 1) % all_ranks();
  std::optional<ProgressThread> receiver;
  if (GetParam()) receiver.emplace(MPI_COMM_WORLD, 50);
  const OwnedComm comm{Communicator(MPI_COMM_WORLD)};
  Region region(floats);
  std::vector<float> values(floats);
  {
    MessageTransport messages(comm, region.begin(), piece);
    messages.add_peer(next);
    messages.add_peer(former);
    for (std::int64_t round = 1; round <= 20; ++round) {
      std::fill(values.begin(), values.end(), static_cast<float>(round));
      messages.write(next, values_at, HostVector<const float>(values.data(), floats));
      messages.write(next, 8, std::array<std::int64_t, 3>{10 * round, 11 * round, 12 * round});
      messages.write(next, 0, std::array<std::int64_t, 1>{round});
      PolitePause pause;
      for (; region.number(0) < round; pause()) messages.move_on();
      EXPECT_EQ(region.number(3), 12 * round);
      long wrong = 0;
      for (std::size_t i = 0; i < floats; ++i) wrong += region.value(i) != static_cast<float>(round) ? 1 : 0;
      EXPECT_EQ(wrong, 0);
      messages.write(former, 32, std::array<std::int64_t, 1>{round});  // that it has been read
      for (; region.number(4) < round || !messages.has_sent(next); pause()) messages.move_on();
    }
    for (std::int64_t more = 0; more < 100; ++more) messages.write(next, 40, std::array<std::int64_t, 1>{more});
  }
  EXPECT_EQ(region.number(5), 99);  // nothing is lost at the end
}

// However short: MPI would look through all of them whenever it looks for one, and keep them until they are received.
TEST(MessageTransport, GivesAFewMessagesToMpiUntilTheyAreReceived) {
  constexpr std::size_t pieces = 1000, piece = 16, floats = pieces * piece;
  const int next = (this_rank() + 1) % all_ranks(), former = (this_rank() + all_ranks() - 1) % all_ranks();
  const OwnedComm comm{Communicator(MPI_COMM_WORLD)};
  Region region(floats);
  std::vector<float> values(floats);
  for (std::size_t i = 0; i < floats; ++i) values[i] = static_cast<float>(i + 1);
  MessageTransport messages(comm, region.begin(), piece);
  messages.add_peer(next);
  messages.add_peer(former);
  values_begun = 0;
  messages.write(next, values_at, HostVector<const float>(values.data(), floats));
  messages.write(next, 0, std::array<std::int64_t, 1>{1});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(messages.has_sent(next));
  EXPECT_EQ(values_begun, 64);
  comm.barrier();  // nobody has received before
  PolitePause pause;
  for (; region.number(0) < 1 || !messages.has_sent(next); pause()) messages.move_on();
  EXPECT_EQ(values_begun, 1000);
  long wrong = 0;
  for (std::size_t i = 0; i < floats; ++i) wrong += region.value(i) != values[i] ? 1 : 0;
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Receivers, Messages, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "thread" : "caller"; });

}  // namespace
}  // namespace halograd::message_transport_mpi_test
