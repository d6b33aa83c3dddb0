#include "averagers/averager_table.hpp"

#include <algorithm>
#include <iterator>

#include "averagers/codec_table.hpp"

namespace halograd {

// Each stands in the file of its averager.
// NOLINTBEGIN(readability-redundant-declaration): where sources are looked at together, some were defined before
AveragerRow none_row();
AveragerRow allreduce_row();
AveragerRow neighbour_row();
AveragerRow push_sum_row();
AveragerRow ad_psgd_row();
AveragerRow gossip_grad_row();
AveragerRow elastic_row();
AveragerRow fast_row();
AveragerRow hierarchical_row();
// NOLINTEND(readability-redundant-declaration)

const std::vector<AveragerRow>& averagers() {
  static const std::vector<AveragerRow> rows{
      none_row(),        allreduce_row(), neighbour_row(), push_sum_row(),     ad_psgd_row(),
      gossip_grad_row(), elastic_row(),   fast_row(),      hierarchical_row(),
  };
  return rows;
}

const AveragerRow& row_of(const AveragerConfig& averager) {
  return row_of(averagers(), averager.name, "averager.name");
}

const AveragerOption* find_option(const AveragerRow& row, std::string_view key) {
  const auto found = std::find_if(row.options->begin(), row.options->end(),
                                  [&](const AveragerOption& option) { return option.key == key; });
  return found == row.options->end() ? nullptr : &*found;
}

bool reads(const AveragerRow& row, std::string_view key) {
  const auto is_key = [&](std::string_view other) { return other == key; };
  return find_option(row, key) != nullptr || std::any_of(row.adjusted_by->begin(), row.adjusted_by->end(), is_key);
}

bool exact_average_reads(std::string_view key) {
  constexpr std::string_view keys[] = {"momentum"};
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

std::string title_of(const AveragerConfig& averager) {
  return averager.name + (reads(row_of(averager), "order") ? " " + averager.order : "");
}

bool may_use_device_windows(const AveragerConfig& averager, bool graph_changes) {
  return row_of(averager).device_windows && !graph_changes && !is_coded(averager);
}

Pace always_lockstep(const AveragerConfig& /*averager*/) {
  return Pace::lockstep;
}

Pace lockstep_or_free(const AveragerConfig& averager) {
  return averager.staleness < 0 ? Pace::free : Pace::lockstep;
}

double sends_nothing(const ExchangeSize& /*size*/) {
  return 0;
}

double sends_weights(const ExchangeSize& size) {
  return size.topology.mean_out(size.rank) * static_cast<double>(size.length * sizeof(float));
}

bool combines_first(const AveragerConfig& averager) {
  return row_of(orders, averager.order, "averager.order").combines_first;
}

bool averages_momentum(const AveragerConfig& averager) {
  return row_of(momenta, averager.momentum, "averager.momentum").averaged;
}

}  // namespace halograd
