#include "comm/averagers.hpp"

namespace halograd {

namespace {

class NoneAverager final : public Averager {};

}  // namespace

std::unique_ptr<Averager> make_none_averager() {
  return std::make_unique<NoneAverager>();
}

}  // namespace halograd
