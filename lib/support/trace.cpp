#include "support/trace.hpp"

#include <atomic>
#include <chrono>
#include <mutex>

#include "support/json.hpp"

namespace halograd::trace {
namespace {

std::atomic<bool> on{false};
std::mutex mutex;  // guards what follows
std::vector<Event> kept;
std::size_t most = 0;
std::int64_t not_kept = 0;
std::atomic<int> threads{0};
std::atomic<int> round{0};

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int thread_number() {
  thread_local int of_round = 0, number = 0;
  const int current = round.load(std::memory_order_relaxed);
  if (of_round != current) {
    of_round = current;
    number = threads.fetch_add(1);
  }
  return number;
}

}  // namespace

void start(std::size_t most_events) {
  const std::lock_guard<std::mutex> lock(mutex);
  kept.clear();
  kept.reserve(most_events);  // pages are taken as they are filled; nothing is copied in a step
  most = most_events;
  not_kept = 0;
  threads = 0;
  ++round;
  thread_number();
  on = true;
}

bool is_on() {
  return on.load(std::memory_order_relaxed);
}

std::vector<Event> stop() {
  on = false;
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<Event> events;
  events.swap(kept);
  return events;
}

std::int64_t lost() {
  const std::lock_guard<std::mutex> lock(mutex);
  return not_kept;
}

Span::Span(const char* name, const char* category) : name_(name), category_(category) {
  if (is_on()) begin_ = now();
}

Span::~Span() {
  if (begin_ == 0 || !is_on()) return;
  const Event event{name_, category_, begin_, now(), thread_number()};
  const std::lock_guard<std::mutex> lock(mutex);
  if (kept.size() < most) {
    kept.push_back(event);
  } else {
    ++not_kept;
  }
}

std::string chrome_events(const std::vector<Event>& events, int rank, std::int64_t offset, std::int64_t zero) {
  const auto microseconds = [](std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; };
  std::string text;
  // one event after the other becomes text: the value of a whole trace would be many times as large
  const auto add = [&text](const Json& event) { text += (text.empty() ? "" : ",\n") + json_text(event); };
  const auto describe_process = [&](const char* what, const Json& arguments) {
    add({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", 0}, {"args", arguments}});
  };
  describe_process("process_name", {{"name", "rank " + std::to_string(rank)}});
  describe_process("process_sort_index", {{"sort_index", rank}});
  for (const Event& event : events) {
    add({{"name", event.name},
         {"cat", event.category},
         {"ph", "X"},
         {"pid", rank},
         {"tid", event.thread},
         {"ts", microseconds(event.begin + offset - zero)},
         {"dur", microseconds(event.end - event.begin)}});
  }
  return text;
}

}  // namespace halograd::trace
