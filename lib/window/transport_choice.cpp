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

}  // namespace

TransportChoice choose_transport(const CommConfig& config, NetworkTrial trial) {
  const Transport& asked = row_of(transports, config.transport, "comm.transport");
  TransportChoice choice{config.transport, "", std::move(trial)};
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
