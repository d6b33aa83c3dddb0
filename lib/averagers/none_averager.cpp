#include "averagers/averagers.hpp"

namespace halograd {

namespace {

/// Every rank trains alone.
class NoneAverager final : public Averager {
 public:
  [[nodiscard]] std::int64_t period() const override { return 0; }
};

std::unique_ptr<Averager> make_none(const AveragerContext& /*context*/) {
  return std::make_unique<NoneAverager>();
}

}  // namespace

AveragerRow none_row() {
  return {
      .name = "none",
      .meaning = "every rank trains alone",
      .make = make_none,
      .bytes_per_exchange = sends_nothing,
      .exchanges = Exchange::nothing,
      .graphs = Graphs::none,
      .of_nodes = false,
      .out_degree = false,
      .pace = always_lockstep,
      .always_under_way = false,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = false,
      .device_windows = false,
      .options = std::vector<AveragerOption>{},
      .adjusted_by = std::vector<const char*>{},
  };
}

}  // namespace halograd
