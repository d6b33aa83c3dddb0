#include "window/transport_choice.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "support/text.hpp"
#include "window/transport_options.hpp"

namespace halograd {
namespace {

/// What is wrong with MPI_Put between nodes; empty: nothing.
std::string weakness_of_puts(const NetworkTrial& trial) {
  if (!trial.put_fault.empty()) return trial.put_fault;
  const auto slow = std::find_if(trial.nodes.begin(), trial.nodes.end(),
                                 [](const NodeSpeed& node) { return are_puts_slow(node.speed); });
  if (slow == trial.nodes.end()) return "";
  return "MPI_Put reaches " + significant(1e-6 * slow->speed.bandwidth) + " MB/s from rank " +
         std::to_string(slow->rank) + ", messages " + significant(1e-6 * slow->speed.send_bandwidth);
}

bool is_slow(const NodeSpeed& node) {
  return std::max(node.speed.bandwidth, node.speed.send_bandwidth) < 1e6 * slow_link_mb;
}

}  // namespace

TransportChoice choose_transport(const CommConfig& config, NetworkTrial trial) {
  const Transport& asked = row_of(transports, config.transport, "comm.transport");
  TransportChoice choice{config.transport, "", config.piece_kb, std::move(trial)};
  const bool slow = std::any_of(choice.trial.nodes.begin(), choice.trial.nodes.end(), is_slow);
  if (choice.piece_kb == 0 && slow) choice.piece_kb = piece_kb_of_slow_links;
  if (!asked.by_trial) {
    HALOGRAD_REQUIRE(asked.carrier == Carrier::send || choice.trial.put_fault.empty(), "comm.transport is \"",
                     config.transport, "\", but ", choice.trial.put_fault);
    return choice;
  }
  choice.reason = weakness_of_puts(choice.trial);
  if (choice.reason.empty()) return choice;
  HALOGRAD_REQUIRE(config.progress_us > 0, choice.reason, "; ", no_receiver);
  choice.transport = sending_transport().name;
  return choice;
}

}  // namespace halograd
