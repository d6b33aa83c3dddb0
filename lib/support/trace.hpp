#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What a thread of this process did from when to when, for a trace of the run. Off unless switched on: a span then
/// costs the reading of one flag. On, it costs two readings of the clock and a store.
namespace halograd::trace {

/// One span; times in nanoseconds of the node's monotonic clock.
struct Event {
  const char* name;
  const char* category;
  std::int64_t begin, end;
  int thread;  ///< 0: the thread that switched tracing on, then in the order of their first spans
};

/// Keeps up to `most_events` spans from now on; later ones are counted only.
void start(std::size_t most_events = std::size_t{1} << 20U);
[[nodiscard]] bool is_on();
/// Ends it and hands out what was kept. No span may be open in another thread.
std::vector<Event> stop();
/// How many spans of the last trace there was no room for.
[[nodiscard]] std::int64_t lost();

/// From here to the end of the block. `name` and `category` must be literals.
class Span {
 public:
  Span(const char* name, const char* category);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const char *name_, *category_;
  std::int64_t begin_ = 0;  ///< 0: off
};

/// Chrome's trace-event format: "complete" events of one process (the rank) as JSON objects, separated by commas, with
/// metadata that names it and its threads. Times are moved by `offset` nanoseconds and count from `zero`.
std::string chrome_events(const std::vector<Event>& events, int rank, std::int64_t offset, std::int64_t zero);

}  // namespace halograd::trace
