#include "run/checkpoint_interval.hpp"

#include <cmath>

namespace halograd {

double young_interval(double cost, double mttf) {
  return std::sqrt(2 * cost * mttf);
}

double daly_interval(double cost, double mttf) {
  if (cost >= 2 * mttf) return mttf;
  const double ratio = cost / (2 * mttf);
  return young_interval(cost, mttf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

double lost_share(double interval, double cost, double restart, double mttf) {
  return 1 - interval / (mttf * std::exp(restart / mttf) * std::expm1((interval + cost) / mttf));
}

}  // namespace halograd
