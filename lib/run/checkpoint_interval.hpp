#pragma once

/// How often to write checkpoints where failures come at random: exponentially distributed, with a mean time M between
/// them. C: what a checkpoint costs; all times in one unit.
namespace halograd {

/// sqrt(2 C M), the first-order optimum (Young, CACM 17(9), 1974).
double young_interval(double cost, double mttf);

/// The optimum of the complete model to higher order (Daly, Future Generation Computer Systems 22(3), 2006):
/// computing time between the end of a checkpoint and the beginning of the next; M where C is 2 M or more.
double daly_interval(double cost, double mttf);

/// Share of the time that checkpoints, work done again and restarts take, by the same model:
/// 1 - interval / (M exp(restart / M) (exp((interval + C) / M) - 1)).
double lost_share(double interval, double cost, double restart, double mttf);

}  // namespace halograd
