#include "window/deck.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <span>

#include "kernels/error.hpp"
#include "mpi/wait.hpp"
#include "window/cache_line.hpp"

namespace halograd {
namespace {

constexpr std::int64_t most_chunks = std::int64_t{1} << 31;
// What is added to the chunks that were taken: by each rank that ends the dealing, and by each second mark, which the
// next one takes off again.
constexpr std::int64_t ended = std::int64_t{1} << 40;
constexpr std::int64_t odd_mark = std::int64_t{1} << 62;
constexpr std::int64_t no_lot = -1;

bool has_ended(std::int64_t taken) {
  return taken % odd_mark >= ended;
}

std::int64_t rounded_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

std::int64_t chunks_of(std::int64_t lots, std::int64_t chunk) {
  return (lots + chunk - 1) / chunk;
}

void check(const DeckPlan& plan) {
  const bool fits = plan.chunk >= 1 && plan.step_lots >= 1 && plan.epoch_lots >= 1 && plan.first >= 0 &&
                    plan.first <= plan.lots && plan.lots % plan.epoch_lots == 0 && plan.first % plan.step_lots == 0 &&
                    plan.epoch_lots % plan.step_lots == 0;
  HALOGRAD_REQUIRE(fits, "deck: ", plan.first, " to ", plan.lots, " lots, ", plan.epoch_lots,
                   " per epoch, in chunks of ", plan.chunk, " and steps of ", plan.step_lots, " do not fit each other");
  const std::int64_t chunks = plan.lots / plan.epoch_lots * chunks_of(plan.epoch_lots, plan.chunk);
  HALOGRAD_REQUIRE(chunks < most_chunks, "the training has ", chunks, " parts of batches to deal; expected fewer than ",
                   most_chunks, ": use larger batches or fewer epochs");
}

/// Collective.
const DeckPlan& checked(const Communicator& comm, const DeckPlan& plan) {
  comm.together([&] { check(plan); });
  return plan;
}

}  // namespace

Deck::Deck(const Communicator& comm, const DeckPlan& plan, double report_seconds, const Communicator* group)
    : plan_(checked(comm, plan)),
      epoch_chunks_(chunks_of(plan.epoch_lots, plan.chunk)),
      chunks_(plan.lots / plan.epoch_lots * epoch_chunks_),
      segment_(comm, words * cache_line, RmaReach::other_nodes),
      report_seconds_(report_seconds) {
  if (group != nullptr) group_.emplace(*group);
  if (comm.rank() == 0) {
    const std::int64_t within = plan.first % plan.epoch_lots / plan.chunk;
    add(taken, plan.first / plan.epoch_lots * epoch_chunks_ + within);
  }
  comm.barrier();
}

std::optional<std::int64_t> Deck::draw() {
  if (!group_) return draw_own();
  if (group_->rank() != 0) return hear_of_lot();
  const std::optional<std::int64_t> lot = draw_own();
  const std::array<std::int64_t, 2> said{lot.value_or(no_lot), marked_};
  for (int member = 1; member < group_->ranks(); ++member) group_->send(std::span<const std::int64_t>(said), member);
  return lot;
}

std::optional<std::int64_t> Deck::hear_of_lot() {
  const auto has_come = [this] {
    int come = 0;
    MPI_Iprobe(0, MPI_ANY_TAG, group_->handle(), &come, MPI_STATUS_IGNORE);
    return come != 0 || leaving_;
  };
  waited_ += wait_and_report(has_come, report_seconds_, [this](double seconds) {
    const int rank = segment_.comm().rank();
    std::fprintf(stderr, "rank %d waits for rank %d: which images are next, %.3g s\n", rank, rank - group_->rank(),
                 seconds);
  });
  if (leaving_) return std::nullopt;
  std::array<std::int64_t, 2> said{};
  group_->receive(std::span<std::int64_t>(said), 0);
  marked_ = said[1];
  return said[0] == no_lot ? std::nullopt : std::optional(said[0]);
}

std::optional<std::int64_t> Deck::draw_own() {
  if (next_ < chunk_end_ && (plan_.chunk == 1 || !has_ended(add(taken, 0)))) return next_++;
  const std::int64_t was = add(taken, 1), chunk = was % ended;
  if (const bool odd = was >= odd_mark; odd != odd_) learn_mark(odd);
  if (chunk >= chunks_ || (has_ended(was) && chunk >= await_end())) {
    next_ = chunk_end_;
    return std::nullopt;
  }
  next_ = std::max(plan_.first, first_lot(chunk));
  chunk_end_ = first_lot(chunk + 1);
  return next_++;
}

void Deck::end() {
  const std::int64_t was = add(taken, ended);
  if (has_ended(was)) return;  // another rank's end came first
  const std::int64_t chunk = std::min(was % ended, chunks_);
  add(end_of_chunks, 1 + (plan_.chunk == 1 ? rounded_up(chunk, plan_.step_lots) : chunk));
}

std::int64_t Deck::mark() {
  const bool odd = mark_said_ % 2 == 0;
  const std::int64_t chunk = std::min(add(taken, odd ? odd_mark : -odd_mark) % ended, chunks_);
  const std::int64_t position = rounded_up(std::max(plan_.first, first_lot(chunk)), plan_.step_lots);
  const std::int64_t say = 2 * position + (odd ? 1 : 0);
  add(last_mark, say - mark_said_);
  mark_said_ = say;
  return position;
}

void Deck::learn_mark(bool odd) {
  std::int64_t said = add(last_mark, 0);
  for (PolitePause pause; (said % 2 != 0) != odd; pause()) said = add(last_mark, 0);
  marked_ = said / 2;
  odd_ = odd;
}

std::int64_t Deck::limit() const {
  if (!has_ended(add(taken, 0))) return plan_.lots;
  return rounded_up(first_lot(await_end()), plan_.step_lots);
}

std::int64_t Deck::await_end() const {
  PolitePause pause;
  for (;; pause()) {
    if (const std::int64_t end = add(end_of_chunks, 0); end > 0) return end - 1;
  }
}

std::int64_t Deck::first_lot(std::int64_t chunk) const {
  return chunk / epoch_chunks_ * plan_.epoch_lots + std::min(chunk % epoch_chunks_ * plan_.chunk, plan_.epoch_lots);
}

// One operation for all who change a word, beside no-ops: MPI promises no atomicity to others (accumulate_ops).
std::int64_t Deck::add(Word word, std::int64_t value) const {
  if (!segment_.window()) {
    auto* const here = reinterpret_cast<std::int64_t*>(segment_.of(0) + cache_line * word);
    return std::atomic_ref<std::int64_t>(*here).fetch_add(value);
  }
  std::int64_t was = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  bool has_begun = false;
  const auto has_come = [&] {
    if (!has_begun) {  // Open MPI waits here
      MPI_Rget_accumulate(&value, 1, MPI_INT64_T, &was, 1, MPI_INT64_T, 0, static_cast<MPI_Aint>(cache_line * word), 1,
                          MPI_INT64_T, value == 0 ? MPI_NO_OP : MPI_SUM, segment_.window().handle(), &request);
      has_begun = true;
    }
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  };
  waited_ += wait_and_report(has_come, report_seconds_, [this](double seconds) {
    std::fprintf(stderr, "rank %d waits for rank 0: which images are next, %.3g s\n", segment_.comm().rank(), seconds);
  });
  return was;
}

}  // namespace halograd
