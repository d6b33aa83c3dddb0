#include "train/tracing.hpp"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "io/trace_file.hpp"
#include "mpi/rank_clock.hpp"
#include "support/trace.hpp"

namespace halograd {

Tracing::Tracing(const Communicator& comm) : comm_(comm), clock_(std::make_unique<RankClock>(comm)) {
  trace::start();
}

Tracing::~Tracing() {
  if (trace::is_on()) trace::stop();
}

void Tracing::write(const std::string& path) {
  const std::vector<trace::Event> events = trace::stop();
  // Spans stand in the order of their ends; a double holds nanoseconds of a monotonic clock to the microsecond.
  double first = static_cast<double>(clock_->now());
  for (const trace::Event& event : events) {
    first = std::min(first, static_cast<double>(event.begin + clock_->offset()));
  }
  const auto zero = static_cast<std::int64_t>(comm_.smallest(first));
  std::ostringstream facts;
  facts << R"({"program":"halograd","ranks":)" << comm_.ranks() << R"(,"clock_offset_ns":[)";
  const char* separator = "";
  for (const std::int64_t offset : comm_.gather(clock_->offset())) {
    facts << separator << offset;
    separator = ",";
  }
  facts << R"(],"spans_without_room":)" << comm_.sum(trace::lost()) << "}";
  write_trace(comm_, path, trace::chrome_events(events, comm_.rank(), clock_->offset(), zero), facts.str());
}

}  // namespace halograd
