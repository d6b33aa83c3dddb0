#include "io/trace_file.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>

#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

constexpr std::size_t message_bytes = std::size_t{1} << 24U;  // at most

void send(const Communicator& comm, std::span<const char> text) {
  const std::size_t length = text.size();
  comm.send(std::span(&length, 1), 0);
  for (; !text.empty(); text = text.subspan(std::min(message_bytes, text.size()))) {
    comm.send(text.first(std::min(message_bytes, text.size())), 0);
  }
}

void receive(const Communicator& comm, int from, std::ostream& file) {
  std::size_t left = 0;
  comm.receive(std::span(&left, 1), from);
  std::string text;
  for (; left > 0; left -= text.size()) {
    text.resize(std::min(message_bytes, left));
    comm.receive(std::span(text), from);
    file << text;
  }
}

}  // namespace

void write_trace(const Communicator& comm, const std::string& path, const std::string& events,
                 const std::string& facts) {
  const OwnedComm own(comm);
  bool written = true;
  SystemReason reason;
  if (comm.rank() == 0) {
    const std::string partial = path + ".partial";
    std::ofstream file(partial, std::ios::binary);
    file << "{\"displayTimeUnit\":\"ms\",\"otherData\":" << facts << ",\"traceEvents\":[\n" << events;
    for (int other = 1; other < comm.ranks(); ++other) {
      file << ",\n";
      receive(own, other, file);
    }
    file << "\n]}\n";
    file.close();
    written = file && std::rename(partial.c_str(), path.c_str()) == 0;
    reason = system_reason();
  } else {
    send(own, events);
  }
  comm.together([&] { HALOGRAD_REQUIRE(written, path, ": the trace cannot be written: ", reason); });
}

}  // namespace halograd
