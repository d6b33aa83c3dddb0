#pragma once

#include "kernels/accelerator.hpp"
#include "kernels/conv.hpp"
#include "kernels/device/copied_tile.hpp"
#include "kernels/device/matrix_tile.hpp"
#include "kernels/device/tile.hpp"

/// Products by the tile whose columns the result fills best.
namespace halograd::device {

template <class Product>
void multiply_by_fma(const ExecutionSpace& exec, const char* name, const Product& product) {
  using T = typename Product::Value;
  const long columns = product.columns();
  if constexpr (sizeof(T) == 4) {
    // of doubles, so many results would not stay in registers
    if (columns > 64) return multiply_tiles<FmaTile<T, 128, 128, 8, 8>>(exec, name, product);
  }
  if (columns > 32) return multiply_tiles<FmaTile<T, 128, 64, 8, 4>>(exec, name, product);
  if (columns > 16) return multiply_tiles<FmaTile<T, 128, 32, 4, 4>>(exec, name, product);
  multiply_tiles<FmaTile<T, 128, 16, 4, 4>>(exec, name, product);
}

template <class Instruction, class Product>
void multiply_on_matrix_units(const ExecutionSpace& exec, const char* name, const Product& product) {
  using I = Instruction;
  const long columns = product.columns();
  if constexpr (I::threads == 64) {
    // deeper panels of 128 x 128 would leave room for one team in a compute unit's 64 KiB of shared memory
    if (columns > 64) return multiply_tiles<MatrixTile<I, 128, 128, 64, 64, 8>>(exec, name, product);
    if (columns > 32) return multiply_tiles<MatrixTile<I, 128, 64, 64, 32>>(exec, name, product);
    if (columns > 16) return multiply_tiles<MatrixTile<I, 128, 32, 32, 32>>(exec, name, product);
  } else {
    if (columns > 64) return multiply_tiles<MatrixTile<I, 128, 128, 64, 32>>(exec, name, product);
    if (columns > 32) return multiply_tiles<MatrixTile<I, 128, 64, 32, 32>>(exec, name, product);
    if (columns > 16) return multiply_tiles<MatrixTile<I, 128, 32, 32, 16>>(exec, name, product);
  }
  multiply_tiles<MatrixTile<I, 128, 16, 32, 16, I::threads == 64 ? 16 : 16 / I::values_in_word>>(exec, name, product);
}

/// For products of chunks.
template <class Product>
void multiply_chunks(const ExecutionSpace& exec, const char* name, const Product& product) {
  const long columns = product.columns();
  if (columns > 64) return multiply_copied<CopiedTile<128>>(exec, name, product);
  if (columns > 32) return multiply_copied<CopiedTile<64>>(exec, name, product);
  if (columns > 16) return multiply_copied<CopiedTile<32>>(exec, name, product);
  multiply_copied<CopiedTile<16>>(exec, name, product);
}

/// By the device's matrix units where they compute in that precision; values stored as Bfloat16 always.
template <class Product>
void multiply(const ExecutionSpace& exec, const char* name, const Product& product, Precision precision) {
#if defined(KOKKOS_ENABLE_HIP)
  using InBf16 = MfmaBf16;
#else
  using InBf16 = MmaBf16;
#endif
  if constexpr (std::is_same_v<typename Product::Stored, Bfloat16>) {
    multiply_on_matrix_units<InBf16>(exec, name, product);
  } else {
    if constexpr (sizeof(typename Product::Value) == 4) {
      if (precision == Precision::bf16) return multiply_on_matrix_units<InBf16>(exec, name, product);
#if defined(KOKKOS_ENABLE_HIP)
      if (has_matrix_units()) return multiply_on_matrix_units<MfmaFp32>(exec, name, product);
#else
      if (precision == Precision::tf32) return multiply_on_matrix_units<MmaTf32>(exec, name, product);
#endif
    }
    multiply_by_fma(exec, name, product);
  }
}

}  // namespace halograd::device
