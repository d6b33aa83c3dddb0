#pragma once

#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/compat.hpp"
#include "kernels/types.hpp"

/// Hopper's matrix instructions, C += A B by four warps together, which read A and B from shared memory while the warps
/// go on (PTX ISA: wgmma). HALOGRAD_WARP_GROUPS: this is compiled for a device that has them (sm_90a).
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HALOGRAD_WARP_GROUPS
#endif

namespace halograd::device {

#if defined(__CUDA_ARCH__)
__device__ inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
#endif

#if defined(HALOGRAD_WARP_GROUPS)
/// Where a matrix lies in shared memory (PTX ISA: matrix descriptor).
using SharedMatrix = std::uint64_t;

/// Bands of `width` bytes, 32, 64 or 128, one every `band` bytes; `eight`: from eight lines to the next.
__device__ inline SharedMatrix shared_matrix(const void* first, unsigned band, unsigned eight, unsigned width) {
  const auto field = [](unsigned bytes) { return SharedMatrix{bytes >> 4U & 0x3fffU}; };
  const SharedMatrix swizzle = width == 128 ? 1 : width == 64 ? 2 : 3;
  return field(shared_address(first)) | field(band) << 16U | field(eight) << 32U | swizzle << 62U;
}

/// Before products that use registers which others than products have written.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for all; until then `sums` are not to be touched.
template <int fragments>
__device__ void wait_for_products(float (&sums)[fragments][4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  HALOGRAD_UNROLL
  for (auto& fragment : sums) {
    for (float& sum : fragment) asm volatile("" : "+f"(sum)::"memory");
  }
}

// The sums of 64 rows: fragments of 16 x 8 as mma.m16n8k16 has them, one below the other in the warps.
#define HALOGRAD_SUMS(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define HALOGRAD_SUMS_4(n) HALOGRAD_SUMS(n), HALOGRAD_SUMS((n) + 1), HALOGRAD_SUMS((n) + 2), HALOGRAD_SUMS((n) + 3)
#define HALOGRAD_WARP_GROUP_PRODUCT(columns, registers, a, b, a_lines, b_lines, ...)                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" registers "}, " a ", " b \
               ", 1, 1, 1, " a_lines ", " b_lines ";"                                                      \
               : __VA_ARGS__                                                                               \
               : "l"(left), "l"(right), "n"(a_across ? 1 : 0), "n"(b_across ? 1 : 0))

/// (64, 16) times (16, 8 fragments); across: its lines are of one depth each.
template <bool a_across, bool b_across>
__device__ void multiply_matrices(float (&c)[2][4], SharedMatrix left, SharedMatrix right) {
  HALOGRAD_WARP_GROUP_PRODUCT(16, "%0, %1, %2, %3, %4, %5, %6, %7", "%8", "%9", "%10", "%11", HALOGRAD_SUMS(0),
                              HALOGRAD_SUMS(1));
}
template <bool a_across, bool b_across>
__device__ void multiply_matrices(float (&c)[4][4], SharedMatrix left, SharedMatrix right) {
  HALOGRAD_WARP_GROUP_PRODUCT(32, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15", "%16", "%17",
                              "%18", "%19", HALOGRAD_SUMS_4(0));
}
template <bool a_across, bool b_across>
__device__ void multiply_matrices(float (&c)[8][4], SharedMatrix left, SharedMatrix right) {
  HALOGRAD_WARP_GROUP_PRODUCT(64,
                              "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                              "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31",
                              "%32", "%33", "%34", "%35", HALOGRAD_SUMS_4(0), HALOGRAD_SUMS_4(4));
}
template <bool a_across, bool b_across>
__device__ void multiply_matrices(float (&c)[16][4], SharedMatrix left, SharedMatrix right) {
  HALOGRAD_WARP_GROUP_PRODUCT(128,
                              "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                              "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                              "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                              "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63",
                              "%64", "%65", "%66", "%67", HALOGRAD_SUMS_4(0), HALOGRAD_SUMS_4(4), HALOGRAD_SUMS_4(8),
                              HALOGRAD_SUMS_4(12));
}
#undef HALOGRAD_WARP_GROUP_PRODUCT
#undef HALOGRAD_SUMS_4
#undef HALOGRAD_SUMS
#endif

}  // namespace halograd::device
