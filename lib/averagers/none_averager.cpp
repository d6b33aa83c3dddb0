#include "averagers/averagers.hpp"

namespace halograd {

namespace {

class NoneAverager final : public Averager {
 public:
  [[nodiscard]] std::int64_t period() const override { return 0; }
};

}  // namespace

std::unique_ptr<Averager> make_none_averager() {
  return std::make_unique<NoneAverager>();
}

}  // namespace halograd
