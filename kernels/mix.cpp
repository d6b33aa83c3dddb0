#include "kernels/mix.hpp"

#include <cmath>
#include <numeric>

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

/// Sums in double, rounded once: weights rounded to float would not add up to what the caller means.
template <int Count>
struct Mix {
  MixTerms terms;
  float* x;
  KOKKOS_FUNCTION void operator()(const long begin, const long end) const {
    float* const to = x;
    const double self_weight = terms.self_weight;
    HALOGRAD_IVDEP
    for (long i = begin; i < end; ++i) {
      double sum = self_weight * static_cast<double>(to[i]);
      if constexpr (Count > 0) sum += terms.weights[0] * static_cast<double>(terms.halos[0][i]);
      if constexpr (Count > 1) sum += terms.weights[1] * static_cast<double>(terms.halos[1][i]);
      if constexpr (Count > 2) sum += terms.weights[2] * static_cast<double>(terms.halos[2][i]);
      if constexpr (Count > 3) sum += terms.weights[3] * static_cast<double>(terms.halos[3][i]);
      to[i] = static_cast<float>(sum);
    }
  }
};

/// The same where the weights are those of an average: x + sum_j w_j (h_j - x). What is added to one replica is taken
/// from another whatever w_j is rounded to, and replicas that agree stay as they are, so that float will do.
template <int Count>
struct MixDifferences {
  MixDifferences(const MixTerms& terms, float* to_mix) : x(to_mix) {
    for (int j = 0; j < Count; ++j) {
      weights[j] = static_cast<float>(terms.weights[j]);
      halos[j] = terms.halos[j];
    }
  }
  float weights[mix_width] = {};
  const float* halos[mix_width] = {};
  float* x;
  KOKKOS_FUNCTION void operator()(const long begin, const long end) const {
    float* const to = x;
    HALOGRAD_IVDEP
    for (long i = begin; i < end; ++i) {
      const float own = to[i];
      float sum = 0;
      if constexpr (Count > 0) sum += weights[0] * (halos[0][i] - own);
      if constexpr (Count > 1) sum += weights[1] * (halos[1][i] - own);
      if constexpr (Count > 2) sum += weights[2] * (halos[2][i] - own);
      if constexpr (Count > 3) sum += weights[3] * (halos[3][i] - own);
      to[i] = own + sum;
    }
  }
};

bool is_average(const MixTerms& terms) {
  const double sum = std::accumulate(terms.weights, terms.weights + terms.count, terms.self_weight);
  return std::abs(sum - 1) < 1e-12;
}

template <int Count>
void mix_count(const ExecutionSpace& exec, const MixTerms& terms, const Vector<float>& x) {
  const long length = static_cast<long>(x.extent(0));
  if (is_average(terms)) {
    for_each_chunk(exec, "halograd::mix_differences", length, MixDifferences<Count>(terms, x.data()));
  } else {
    for_each_chunk(exec, "halograd::mix", length, Mix<Count>{terms, x.data()});
  }
}

/// Independent partial sums: a single one would have to be added to in order, one value at a time.
constexpr int sum_lanes = runs_on_host ? 32 : 1;

struct Value {
  const float* x;
  KOKKOS_FUNCTION double operator()(const long i) const { return static_cast<double>(x[i]); }
};

struct Difference {
  const float* x;
  const float* y;
  KOKKOS_FUNCTION double operator()(const long i) const {
    return static_cast<double>(x[i]) - static_cast<double>(y[i]);
  }
};

template <class Term>
struct SumOfSquares {
  Term term;
  KOKKOS_FUNCTION double operator()(const long begin, const long end) const {
    double lanes[sum_lanes] = {};
    long i = begin;
    for (; i + sum_lanes <= end; i += sum_lanes) {
      for (int lane = 0; lane < sum_lanes; ++lane) {
        const double value = term(i + lane);
        lanes[lane] += value * value;
      }
    }
    double sum = 0;
    for (; i < end; ++i) {
      const double value = term(i);
      sum += value * value;
    }
    for (const double lane : lanes) sum += lane;
    return sum;
  }
};

}  // namespace

void mix(const ExecutionSpace& exec, const MixTerms& terms, Vector<float> x) {
  static_assert(mix_width == 4);
  switch (terms.count) {
    case 0:
      return mix_count<0>(exec, terms, x);
    case 1:
      return mix_count<1>(exec, terms, x);
    case 2:
      return mix_count<2>(exec, terms, x);
    case 3:
      return mix_count<3>(exec, terms, x);
    case 4:
      return mix_count<4>(exec, terms, x);
    default:
      fail("mix: ", terms.count, " halos in one pass, 0 to ", mix_width, " are possible");
  }
}

double squared_distance(const ExecutionSpace& exec, Vector<const float> x, Vector<const float> y) {
  HALOGRAD_REQUIRE(x.extent(0) == y.extent(0), "squared_distance: the ranges differ in length: ", x.extent(0), " and ",
                   y.extent(0), " values");
  return sum_over_chunks(exec, "halograd::squared_distance", static_cast<long>(x.extent(0)),
                         SumOfSquares<Difference>{{x.data(), y.data()}});
}

double squared_length(const ExecutionSpace& exec, Vector<const float> x) {
  return sum_over_chunks(exec, "halograd::squared_length", static_cast<long>(x.extent(0)),
                         SumOfSquares<Value>{{x.data()}});
}

void scale(const ExecutionSpace& exec, double factor, Vector<const float> x, Vector<float> y) {
  HALOGRAD_REQUIRE(x.extent(0) == y.extent(0), "scale: the ranges differ in length: ", x.extent(0), " and ",
                   y.extent(0), " values");
  const float* from = x.data();
  float* to = y.data();
  for_each_chunk(
      exec, "halograd::scale", static_cast<long>(x.extent(0)), KOKKOS_LAMBDA(const long begin, const long end) {
        HALOGRAD_IVDEP
        for (long i = begin; i < end; ++i) {
          to[i] = static_cast<float>(factor * static_cast<double>(from[i]));
        }
      });
}

}  // namespace halograd
