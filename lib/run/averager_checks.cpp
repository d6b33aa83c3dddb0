#include "run/averager_checks.hpp"

#include <vector>

#include "averagers/averager_table.hpp"
#include "averagers/codec_table.hpp"
#include "graph/topology_table.hpp"
#include "optimizers/optimizers.hpp"
#include "run/keys.hpp"
#include "run/training_choices.hpp"
#include "support/text.hpp"
#include "window/transport_options.hpp"

namespace halograd {
namespace {

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

/// A key of [averager] and its value, as a message shows it: averager.staleness, "-1".
struct Setting {
  std::string key, value;
  [[nodiscard]] std::string text() const { return "averager." + key + " = " + value; }
};

/// A visitor that collects the settings of a table.
class Settings {
 public:
  template <class Member>
  void operator()(const char* key, const Member& member, const std::string&, const Allowed&) {
    all.push_back({key, text_of(member)});
  }
  std::vector<Setting> all;

 private:
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(int value) { return std::to_string(value); }
  static std::string text_of(double value) { return short_number(value); }
  static std::string text_of(const std::string& value) { return quoted(value); }
};

/// Those that are not at their defaults.
std::vector<Setting> changed_settings(AveragerConfig averager) {
  AveragerConfig standard;
  Settings given, defaults;
  visit(given, averager);
  visit(defaults, standard);
  std::vector<Setting> changed;
  for (std::size_t i = 0; i < given.all.size(); ++i) {
    if (given.all[i].value != defaults.all[i].value) changed.push_back(given.all[i]);
  }
  return changed;
}

/// The averagers of which something holds: averager.name = "a" or "b".
template <class Condition>
std::string averagers_with(const Condition& holds) {
  std::string names;
  for (const AveragerRow& row : averagers()) {
    if (holds(row)) names += (names.empty() ? "" : " or ") + quoted(row.name);
  }
  return "averager.name = " + names;
}

/// A run file whose [averager], [topology] and [comm] are checked.
struct Checked {
  const RunConfig& config;
  const AveragerConfig& averager = config.averager;
  const AveragerRow& row = row_of(config.averager);
  std::vector<Setting> settings = changed_settings(config.averager);
  bool graph_changes = row_of(config.topology).changes();

  [[nodiscard]] std::string found() const { return " (found " + quoted(averager.name) + ")"; }
  [[nodiscard]] std::string graph() const { return "topology.kind is " + quoted(config.topology.kind); }
  /// The keys that make all ranks wait for each other from time to time; empty where none is set.
  [[nodiscard]] std::string waiting_key() const {
    return averager.global_every > 0 ? "global_every" : averager.consensus_target > 0 ? "consensus_target" : "";
  }
};

using Conflict = std::optional<AveragerConflict>;

/// Keys that ask for what this averager does not do.
Conflict foreign_option(const Checked& run) {
  for (const Setting& setting : run.settings) {
    const auto takes = [&](const AveragerRow& row) { return find_option(row, setting.key) != nullptr; };
    const bool exact = exact_average_reads(setting.key);
    if (takes(run.row) || (exact && run.averager.global_every > 0)) continue;
    const std::string takers = averagers_with(takes);
    bool is_option = false;
    for (const AveragerRow& row : averagers()) is_option = is_option || takes(row);
    if (!is_option) continue;
    return {{setting.key,
             "averager." + setting.key + " applies only to " + takers +
                 (exact ? ", and to the exact averages of averager.global_every" : "") + run.found(),
             "leave averager." + setting.key + " out, or choose another averager"}};
  }
  return std::nullopt;
}

/// A codec of weights, where gradients are sent.
Conflict codec_conflict(const Checked& run) {
  if (run.row.exchanges != Exchange::gradients || codec_row_of(run.averager).of_sums) return std::nullopt;
  std::string expected;
  for (const CodecRow& codec : codecs()) {
    if (codec.of_sums) expected += (expected.empty() ? "" : " or ") + quoted(codec.name);
  }
  return {{"codec",
           "averager.codec = " + quoted(run.averager.codec) +
               " codes differences of weights, but averager.name = " + quoted(run.averager.name) + " sends gradients",
           "expected " + expected}};
}

/// Keys that this averager takes, but not together with others.
Conflict option_conflict(const Checked& run) {
  const Setting* apart = nullptr;
  for (const Setting& setting : run.settings) {
    const AveragerOption* option = find_option(run.row, setting.key);
    if (option != nullptr && option->apart && apart == nullptr) apart = &setting;
  }
  for (const Setting& setting : run.settings) {
    const AveragerOption* option = find_option(run.row, setting.key);
    if (option == nullptr) continue;
    if (option->fixed_graph && run.graph_changes) {
      return {{setting.key, setting.text() + " needs neighbours that stay the same; " + run.graph(),
               "choose another topology.kind, or leave averager." + setting.key + " out"}};
    }
    if (option->every_step && apart != nullptr) {
      return {
          {setting.key,
           setting.text() + " needs what neighbours send in each step, but " + apart->text() + " lets ranks run apart",
           "leave one of them out"}};
    }
  }
  const AveragerOption* staleness = find_option(run.row, "staleness");
  if (run.averager.staleness > 0 && staleness != nullptr && !staleness->bounded) {
    return {{"staleness",
             "averager.staleness = " + std::to_string(run.averager.staleness) + " is a bound, but ranks of " +
                 quoted(run.averager.name) + " either keep step or wait for nobody",
             "expected 0 or -1"}};
  }
  if (run.averager.staleness < 0 && run.averager.patience > 0) {
    return {{"patience",
             "averager.patience is how long a late neighbour is waited for, but with averager.staleness = -1 none is",
             "leave averager.patience out, or set averager.staleness to 0 or a bound"}};
  }
  if (apart != nullptr && !run.waiting_key().empty()) {
    return {{apart->key,
             apart->text() + " lets ranks run apart, but averager." + run.waiting_key() + " waits for all of them",
             "leave one of them out"}};
  }
  return std::nullopt;
}

/// Halos that are lost on purpose, where ranks wait for them.
Conflict loss_conflict(const Checked& run) {
  if (run.config.comm.inject.drop_fraction == 0) return std::nullopt;
  const bool survives = run.row.survives_losses;
  if (survives && run.row.pace(run.averager) == Pace::free) return std::nullopt;
  return {{"inject",
           "comm.inject.drop_fraction loses halos, but " +
               (survives ? "with averager.staleness = " + std::to_string(run.averager.staleness) +
                               " and no averager.patience a rank waits for them without end"
                         : "the averager " + quoted(run.averager.name) + " needs everything that is sent"),
           "expected " + averagers_with([](const AveragerRow& row) -> bool { return row.survives_losses; }) +
               " with staleness = -1, or with patience above 0",
           "comm"}};
}

/// Halos in device memory, asked for where there are none.
Conflict device_conflict(const Checked& run) {
  const std::string& asked = run.config.comm.device_windows;
  if (!row_of(device_windows, asked, "comm.device_windows").required) return std::nullopt;
  if (may_use_device_windows(run.averager, run.graph_changes)) return std::nullopt;
  return {{"device_windows",
           "comm.device_windows applies only to " + averagers_with([](const AveragerRow& row) -> bool {
             return row.device_windows;
           }) + " with weights as they are and neighbours that stay the same; " +
               (!run.row.device_windows ? "the averager is " + quoted(run.averager.name)
                : run.graph_changes     ? run.graph()
                                        : "the codec is " + quoted(run.averager.codec)),
           "leave it at \"auto\"", "comm"}};
}

/// Messages without anybody who receives them.
Conflict transport_conflict(const Checked& run) {
  const CommConfig& comm = run.config.comm;
  const Transport& asked = row_of(transports, comm.transport, "comm.transport");
  const bool free = run.row.pace(run.averager) == Pace::free;
  if ((free ? asked.free_carrier : asked.carrier) == Carrier::put || comm.progress_us > 0) return std::nullopt;
  const bool by_pace = asked.carrier == Carrier::put;
  return {{"progress_us",
           "comm.transport is " + quoted(comm.transport) +
               (by_pace ? ", by which ranks that wait for nobody send messages" : "") + ", but " + no_receiver,
           "leave comm.progress_us out, or set comm.transport = \"put\"", "comm"}};
}

/// What goes with which graph.
Conflict graph_conflict(const Checked& run) {
  const TopologyConfig& topology = run.config.topology;
  const std::string needs = "averager.name = " + quoted(run.averager.name) + " needs ";
  const auto refused = [&](const std::string& what, const std::string& hint) {
    return Conflict{{"kind", needs + what + "; " + run.graph(), hint, "topology"}};
  };
  if (*weight_row_of(topology.weights).weights == nullptr && !run.row.out_degree) {
    return {{"weights",
             "topology.weights = " + quoted(topology.weights) + " applies only to " +
                 averagers_with([](const AveragerRow& row) -> bool { return row.out_degree; }) + run.found(),
             "with any other averager the mean of the replicas would drift", "topology"}};
  }
  switch (*run.row.graphs) {
    case Graphs::none:
    case Graphs::any:
      return std::nullopt;
    case Graphs::changing:
      if (run.graph_changes) return std::nullopt;
      return refused("another partner in each step", "expected one of " + listed(DynamicTopology::kinds()));
    case Graphs::fixed_undirected:
      if (!run.graph_changes && !row_of(topology).one_way) return std::nullopt;
      return refused("a graph that does not change, with edges both ways",
                     "for example complete, torus2d or ring: the pairs are drawn among its edges");
    case Graphs::fixed:
      if (!run.graph_changes) return std::nullopt;
      return refused("neighbours that stay the same", "for example ring or torus2d");
  }
  return std::nullopt;
}

/// How often ranks exchange.
Conflict period_conflict(const Checked& run) {
  const AveragerConfig& averager = run.averager;
  if (run.row.always_under_way && !run.waiting_key().empty()) {
    const std::string key = run.waiting_key();
    return {{key,
             "averager." + key + " looks at all replicas at once, but with averager.name = " + quoted(averager.name) +
                 " something is always under way between them",
             "averager.name = \"neighbour\" can do it"}};
  }
  if (!run.row.local_steps && (averager.every > 1 || averager.consensus_target > 0)) {
    const std::string key = averager.every > 1 ? "every" : "consensus_target";
    return {{key, "averager." + key + " applies only to " + averagers_with([](const AveragerRow& row) -> bool {
                    return row.local_steps;
                  }) + run.found(),
             "local SGD is averager.name = \"none\" with averager.global_every"}};
  }
  if (averager.global_every > 0 && run.row.shares_gradients) {
    return {{"global_every", "averager.global_every applies only to replicas that differ" + run.found(),
             "leave it out: these replicas are equal"}};
  }
  if (averager.consensus_target > 0 && averager.every == 1) {
    return {{"consensus_target",
             "averager.consensus_target chooses the steps between exchanges, averager.every = 1 leaves no choice",
             "set averager.every to the most steps, for example 32"}};
  }
  return std::nullopt;
}

/// What shares out batches beforehand, where ranks take what they can do.
Conflict pace_conflict(const Checked& run) {
  if (run.row.pace(run.averager) != Pace::free || !shares_by_speed(run.config.training)) return std::nullopt;
  return {{"shares",
           "training.shares = \"measured\" deals batches beforehand, but with this averager each rank takes its next "
           "images when it is done with the last" +
               run.found(),
           "leave it out: the ranks' shares follow their speed by themselves", "training"}};
}

/// Uneven shares, where a rank steps with others' gradients at its own rate. Gradients that are averaged go with every
/// step: only those that each make a step of their own may be left out of some.
Conflict shares_conflict(const Checked& run) {
  const bool steps_with_each = run.row.exchanges == Exchange::gradients && run.row.local_steps;
  if (!steps_with_each || !shares_by_speed(run.config.training)) return std::nullopt;
  return {{"shares",
           "training.shares = \"measured\" multiplies a rank's rate by its share, but with this averager it steps with "
           "its neighbours' gradients too" +
               run.found(),
           "leave it out, or choose another averager", "training"}};
}

/// Averaged buffers of an optimizer that has none, or whose buffers no codec must touch.
Conflict momentum_conflict(const Checked& run) {
  if (!averages_momentum(run.averager)) return std::nullopt;
  const OptimizerConfig& optimizer = run.config.optimizer;
  const OptimizerType& type = row_of(optimizers(), optimizer.name, "optimizer.name");
  if (type.state_only_of_momentum && optimizer.momentum == 0) {
    return {{"momentum",
             "averager.momentum = \"averaged\" averages the optimizer's buffers, but " + optimizer.name + " has none",
             "set optimizer.momentum, or leave averager.momentum out"}};
  }
  // An exchange adds differences of estimates, which may be larger than the value that they are added to. Clamping what
  // comes out at 0 would make steps of Adam far too long.
  if (type.keeps_squares && is_coded(run.averager)) {
    return {{"momentum",
             "averager.momentum = \"averaged\" with averager.codec = " + quoted(run.averager.codec) +
                 " may take buffers below 0, but those of " + optimizer.name + " hold squares of gradients",
             "leave one of the two out, or choose optimizer.name = \"sgd\""}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<AveragerConflict> averager_conflict(const RunConfig& config) {
  const Checked run{config};
  for (const auto check :
       {loss_conflict, foreign_option, codec_conflict, option_conflict, device_conflict, transport_conflict,
        graph_conflict, period_conflict, pace_conflict, shares_conflict, momentum_conflict}) {
    if (auto conflict = check(run)) return conflict;
  }
  return std::nullopt;
}

}  // namespace halograd
