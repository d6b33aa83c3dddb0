#include "support/trace.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>

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
  std::string text;
  char line[256];
  const auto add = [&text, &line] {
    if (!text.empty()) text += ",\n";
    text += line;
  };
  std::snprintf(line, sizeof line, R"({"name":"process_name","ph":"M","pid":%d,"tid":0,"args":{"name":"rank %d"}})",
                rank, rank);
  add();
  std::snprintf(line, sizeof line,
                R"({"name":"process_sort_index","ph":"M","pid":%d,"tid":0,"args":{"sort_index":%d}})", rank, rank);
  add();
  for (const Event& event : events) {
    std::snprintf(line, sizeof line, R"({"name":"%s","cat":"%s","ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f})",
                  event.name, event.category, rank, event.thread,
                  1e-3 * static_cast<double>(event.begin + offset - zero),
                  1e-3 * static_cast<double>(event.end - event.begin));
    add();
  }
  return text;
}

}  // namespace halograd::trace
