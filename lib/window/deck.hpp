#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "mpi/communicator.hpp"
#include "window/shared_segment.hpp"

namespace halograd {

/// The lots of a training: parts of batches, numbered in the order in which they are dealt.
struct DeckPlan {
  std::int64_t first = 0;       ///< lots below it are done
  std::int64_t lots = 0;        ///< of the whole training
  std::int64_t epoch_lots = 1;  ///< of an epoch; no chunk lies in two
  std::int64_t chunk = 1;       ///< lots that a rank takes at a time
  std::int64_t step_lots = 1;   ///< of a step: an end falls on a multiple of it, as do `first` and `epoch_lots`
};

/// Deals lots to whichever rank asks, each lot once: a rank that is twice as fast gets twice as many. What is left is
/// one number in the memory of rank 0, which ranks count up without rank 0's doing: by an atomic addition where all
/// share its memory, by MPI_Rget_accumulate elsewhere. Nobody waits for another rank's step.
class Deck {
 public:
  /// Collective, as is destruction except while an exception unwinds this rank's stack. Throws CollectiveError where
  /// the numbers of `plan` are not positive or do not fit each other, or where there are 2^31 chunks or more. A wait
  /// of more than `report_seconds` for rank 0, or for the first of a group, is reported on stderr. `group`: consecutive
  /// ranks of `comm` that are dealt the same lots; null: this rank alone.
  Deck(const Communicator& comm, const DeckPlan& plan, double report_seconds = 30, const Communicator* group = nullptr);

  /// A lot that no other rank or group has; none after the last, or after an end. Lots of one rank ascend. In a group
  /// the first rank draws and tells the others, which wait for it. From one thread at a time.
  std::optional<std::int64_t> draw();
  /// Has a draw() that waits for the first of the group give none. Of use where an error ends this rank alone. From any
  /// thread.
  void leave() { leaving_ = true; }

  /// Ends the dealing on all ranks: at the next multiple of `step_lots` lots, which are still dealt where ranks take
  /// single lots, and skipped, with what ranks hold of their chunks, where they take several. Another end changes
  /// nothing. From any thread.
  void end();

  /// A multiple of `step_lots` at which all ranks can do something without waiting for each other: above every lot that
  /// was dealt before. By rank 0 alone, from one thread at a time, and not before all ranks have drawn a lot at or
  /// above the mark before, if there is one.
  std::int64_t mark();
  /// The newest mark that this rank knows of, 0 where it knows of none. Who has drawn a lot at or above a mark knows of
  /// it. From any thread.
  [[nodiscard]] std::int64_t marked() const { return marked_; }

  /// Where the dealing ended: every lot below was dealt or skipped. Call it after draw() has given none.
  [[nodiscard]] std::int64_t limit() const;
  /// For what rank 0's memory holds, or the first of the group says, on all threads together. From any thread.
  [[nodiscard]] double wait_seconds() const { return waited_; }

 private:
  enum Word : std::size_t { taken, end_of_chunks, last_mark, words };
  std::optional<std::int64_t> draw_own();
  std::optional<std::int64_t> hear_of_lot();
  /// Adds to a word and returns what was there before.
  std::int64_t add(Word word, std::int64_t value) const;
  /// One more than the chunk at which the dealing ended; waits for the rank that is just about to say so.
  [[nodiscard]] std::int64_t await_end() const;
  /// Waits for rank 0 to say where the mark is that it has just set.
  void learn_mark(bool odd);
  [[nodiscard]] std::int64_t first_lot(std::int64_t chunk) const;

  DeckPlan plan_;
  std::int64_t epoch_chunks_, chunks_;
  SharedSegment segment_;
  std::optional<OwnedComm> group_;         ///< for lots alone; none: this rank alone
  std::int64_t next_ = 0, chunk_end_ = 0;  ///< lots of the chunk in hand
  bool odd_ = false;                       ///< marks that draw() has learnt of
  std::atomic<std::int64_t> marked_ = 0;
  std::int64_t mark_said_ = 0;  ///< by rank 0: last_mark
  double report_seconds_;
  mutable std::atomic<double> waited_ = 0;
  std::atomic<bool> leaving_ = false;
};

}  // namespace halograd
