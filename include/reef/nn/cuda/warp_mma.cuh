#pragma once

#include <cmath>
#include <cstdint>

#include <cuda_bf16.h>

#include <reef/core/bfloat16.hpp>
#include <reef/device/launch.cuh>

/// Products of bf16 by a warp's tensor cores, summed in fp32, and loads of their factors from shared memory, for
/// code of sm_80 or later. Lane l of a warp holds, with g = l / 4 and t = l % 4,
///
/// | Left, 16 x 16  | columns 2t and 2t + 1 of row g, then of row g + 8; then those 8 columns on    |
/// | Right, 16 x 8  | rows 2t and 2t + 1 of column g; then those 8 rows on                          |
/// | Sum, 16 x 8    | columns 2t and 2t + 1 of row g, then of row g + 8                             |
///
/// Source: PTX ISA 9.0, mma.m16n8k16 with .bf16. A host compiler, with which kernels are executed to be checked,
/// gets functions with the same results, without these instructions.
namespace reef {
inline namespace v0 {
namespace nn::cuda::mma {

/// Two bf16 numbers, the first in the low half.
using Pair = std::uint32_t;

struct Left {
  Pair part[4];
};
struct Right {
  Pair part[2];
};
struct Sum {
  float part[4];
};

__device__ __forceinline__ Pair pair(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const Pair*>(&both);
}

__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % device::cuda_warp; }

#if defined(__CUDACC__)

/// Returns 2^x within 2 units in the last place; 0 if the result is below the normal numbers.
__device__ __forceinline__ float exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// Computes sum += left right.
__device__ __forceinline__ void multiply_add(Sum& sum, const Left& left, const Right& right) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum.part[0]), "+f"(sum.part[1]), "+f"(sum.part[2]), "+f"(sum.part[3])
      : "r"(left.part[0]), "r"(left.part[1]), "r"(left.part[2]), "r"(left.part[3]),
        "r"(right.part[0]), "r"(right.part[1]));
}

__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/// Loads the 16 x 16 matrix at `at`, whose rows are `stride` apart and begin at multiples of 16 bytes.
__device__ __forceinline__ Left load_left(const Bfloat16* at, int stride) {
  Left left;
  const Bfloat16* const row = at + lane() % 16 * stride + lane() / 16 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(left.part[0]), "=r"(left.part[1]), "=r"(left.part[2]), "=r"(left.part[3])
               : "r"(shared_address(row))
               : "memory");
  return left;
}

/// Loads the transpose of the 16 x 16 matrix at `at`, as two factors: of rows 0 to 7, and of rows 8 to 15.
__device__ __forceinline__ void load_rights_of_rows(Right (&right)[2], const Bfloat16* at,
                                                    int stride) {
  const Bfloat16* const row = at + (lane() / 16 * 8 + lane() % 8) * stride + lane() / 8 % 2 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(right[0].part[0]), "=r"(right[0].part[1]), "=r"(right[1].part[0]),
                 "=r"(right[1].part[1])
               : "r"(shared_address(row))
               : "memory");
}

/// Loads the 16 x 16 matrix at `at`, as two factors: of columns 0 to 7, and of columns 8 to 15.
__device__ __forceinline__ void load_rights_of_columns(Right (&right)[2], const Bfloat16* at,
                                                       int stride) {
  const Bfloat16* const row = at + lane() % 16 * stride + lane() / 16 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(right[0].part[0]), "=r"(right[0].part[1]), "=r"(right[1].part[0]),
                 "=r"(right[1].part[1])
               : "r"(shared_address(row))
               : "memory");
}

/// Starts to copy 4 or 16 aligned bytes from device to shared memory, or zeros if not `inside`: wait_for_copies().
template <int Bytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  static_assert(Bytes == 4 || Bytes == 16);
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(inside ? Bytes : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(inside ? Bytes : 0)
                 : "memory");
  }
}

/// Waits until all copies that this thread has started are complete.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

#else

inline float exp2(float x) { return exp2f(x); }

struct Factors {
  Left left;
  Right right;
};

inline float half_of(Pair both, int which) {
  return __builtin_bit_cast(
      float, which == 0 ? both << 16 : both & 0xffff0000U);  // bf16 is a float's first half
}

inline void multiply_add(Sum& sum, const Left& left, const Right& right) {
  const Factors mine{left, right};
  const int row = lane() / 4;
  const int column = lane() % 4 * 2;
  for (int t = 0; t < 4; ++t) {
    const Left rows = __shfl_sync(0xffffffffU, mine, row * 4 + t).left;
    for (int c = 0; c < 2; ++c) {
      const Right columns = __shfl_sync(0xffffffffU, mine, (column + c) * 4 + t).right;
      for (int k = 0; k < 4; ++k) {
        const float factor = half_of(columns.part[k / 2], k % 2);
        sum.part[c] += half_of(rows.part[k / 2 * 2], k % 2) * factor;
        sum.part[2 + c] += half_of(rows.part[k / 2 * 2 + 1], k % 2) * factor;
      }
    }
  }
}

inline Pair pair_at(const Bfloat16* at, int distance) {
  return pair(static_cast<float>(at[0]), static_cast<float>(at[distance]));
}

inline Left load_left(const Bfloat16* at, int stride) {
  const Bfloat16* const mine = at + lane() / 4 * stride + lane() % 4 * 2;
  return {pair_at(mine, 1), pair_at(mine + 8 * stride, 1), pair_at(mine + 8, 1),
          pair_at(mine + 8 * stride + 8, 1)};
}

inline void load_rights_of_rows(Right (&right)[2], const Bfloat16* at, int stride) {
  for (Right& one : right) {
    const Bfloat16* const mine = at + lane() / 4 * stride + lane() % 4 * 2;
    one = {pair_at(mine, 1), pair_at(mine + 8, 1)};
    at += 8 * stride;
  }
}

inline void load_rights_of_columns(Right (&right)[2], const Bfloat16* at, int stride) {
  for (Right& one : right) {
    const Bfloat16* const mine = at + lane() % 4 * 2 * stride + lane() / 4;
    one = {pair_at(mine, stride), pair_at(mine + 8 * stride, stride)};
    at += 8;
  }
}

template <int Bytes>
void copy_async(void* to, const void* from, bool inside) {
  for (int i = 0; i < Bytes / 4; ++i) {
    static_cast<std::uint32_t*>(to)[i] = inside ? static_cast<const std::uint32_t*>(from)[i] : 0;
  }
}
inline void wait_for_copies() {}

#endif

}  // namespace nn::cuda::mma
}  // namespace v0
}  // namespace reef
