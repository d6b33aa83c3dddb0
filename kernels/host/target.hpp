#pragma once

#include <limits>
#include <type_traits>

#include "kernels/host/simd.hpp"

namespace halograd::host {

/// Where the sums of a tile go, and what follows them.
template <class T>
struct Target {
  T* out;
  const T* relu_output;  ///< the result is zero where this, of out's layout, is not positive; or null
  bool accumulate;       ///< add to what is there
  bool relu;             ///< the result is zero where negative

  /// Stores the first `count` lanes of sums at out + at.
  template <class P>
  inline void store(P sums, long at, int count) const {
    if (accumulate) sums += load_first<P>(out + at, count);
    if (relu) sums = sums < P{} ? P{} : sums;
    if (relu_output != nullptr) sums = load_first<P>(relu_output + at, count) > P{} ? sums : P{};
    store_first<P>(sums, out + at, count);
  }

  /// Calls write(store), where store(sums, at) does the same with whole packs: what follows is asked once, not for
  /// every pack.
  template <class Write>
  inline void store_whole(const Write& write) const {
    if (accumulate) {
      relu_output != nullptr ? whole(write, std::true_type{}, std::true_type{})
                             : whole(write, std::true_type{}, std::false_type{});
    } else {
      relu_output != nullptr ? whole(write, std::false_type{}, std::true_type{})
                             : whole(write, std::false_type{}, std::false_type{});
    }
  }

  /// Whether a store reads something first.
  [[nodiscard]] bool reads() const { return accumulate || relu_output != nullptr; }
  /// Fetches what stores of `count` values at out + at, some time later, would wait for: to write is to read the line
  /// first.
  inline void prefetch(long at, int count) const {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
#pragma GCC unroll 8
    for (int i = 0; i < count; i += line) {
      __builtin_prefetch(out + at + i, 1, 3);
      if (relu_output != nullptr) __builtin_prefetch(relu_output + at + i, 0, 3);
    }
  }

  /// The same from column `column` on.
  [[nodiscard]] Target from(long column) const {
    return {out + column, relu_output == nullptr ? nullptr : relu_output + column, accumulate, relu};
  }

 private:
  template <class Write, class Accumulate, class Mask>
  inline void whole(const Write& write, Accumulate, Mask) const {
    const Wide<T> lowest = relu ? 0 : -std::numeric_limits<Wide<T>>::infinity();
    write([to = *this, lowest](auto sums, long at) {
      using P = decltype(sums);
      const P floor = P{} + lowest;
      if constexpr (Accumulate::value) sums += load_as<P>(to.out + at);
      sums = sums < floor ? floor : sums;
      if constexpr (Mask::value) sums = load_as<P>(to.relu_output + at) > P{} ? sums : P{};
      store_pack(sums, to.out + at);
    });
  }
};

}  // namespace halograd::host
