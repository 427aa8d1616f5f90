#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/core/random.hpp>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>
#include <reef/nn/cuda/elementwise.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

// Kernels of bf16 on tensor cores have a body only where such cores can be: has_bf16_tensor_cores().
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define REEF_BF16_TENSOR_CORES 0
#else
#define REEF_BF16_TENSOR_CORES 1
#endif

/// True if T runs the kernels of attention_bf16.cuh instead of those that compute in sum_t<T>.
template <class T>
inline constexpr bool on_tensor_cores = REEF_BF16_TENSOR_CORES != 0 && std::is_same_v<T, Bfloat16>;

// The shared memory of all attention kernels; each kernel divides it in its own way.
extern __shared__ __align__(32) unsigned char attention_shared[];

/// The parameters of all attention kernels, which compute in E. Head size D = C / H; qkv and d_qkv are
/// (B, T, 3 C), out and d_out (B, T, C), lse and delta (B, H, T).
template <class E>
struct AttentionShape {
  std::int64_t sequence, channels, heads;
  int head;     // D
  E scale;      // 1 / sqrt(D)
  float rate;   // the dropout rate; 0: no dropout
  E kept;       // 1 / (1 - rate)
  DrawKey key;  // the key of batch row 0
};

/// The part of the (T, T) scores that a block holds at once: the `own` rows that it is responsible for,
/// times `streamed` rows of the other side, with heads of at most Head channels.
///
/// A block is 16 x 16 threads; thread (y, x) handles the own rows y + 16 i, the streamed rows x + 16 j
/// and the packs x + 16 j of channels, of 16 bytes each. Rows in shared memory are whole packs, an odd number of them, so
/// that threads which read one pack of eight rows hit different banks. The sizes keep every kernel's shared memory within
/// the 64 KiB that the smallest supported device has.
template <class E, int Head>
struct AttentionTile {
  static constexpr int side = 16;
  static constexpr int threads = side * side;
  static constexpr bool narrow = std::is_same_v<E, float>;
  static constexpr int own = narrow ? (Head <= 64 ? 64 : 32) : (Head <= 64 ? 32 : 16);
  static constexpr int streamed = narrow || Head <= 64 ? 32 : 16;
  static constexpr int own_each = own / side;
  static constexpr int streamed_each = streamed / side;
  static constexpr int channels_each = Head / side;
  static constexpr int width = device::Pack<E>::width;
  static constexpr int weight_stride = streamed + width;

  __host__ __device__ static constexpr int row_stride(int head) {
    return ((head + width - 1) / width | 1) * width;
  }

  /// Returns the bytes of `own_tiles` tiles of own rows, of a streamed tile and of the weights between them.
  static constexpr std::size_t shared_bytes(int head, int own_tiles) {
    return sizeof(E) * static_cast<std::size_t>((own_tiles * own + streamed) * row_stride(head) +
                                                own * weight_stride);
  }
  static_assert(channels_each % width == 0 && streamed % width == 0 &&
                shared_bytes(Head, 2) <= 64 * 1024);
};

/// The work of one block: head h of sample b, own rows from `first` on.
template <class T>
struct AttentionRows {
  std::int64_t b, h, first;
  std::int64_t pitch;   // the distance of rows in qkv and d_qkv
  std::int64_t corner;  // the offset of the head's row 0 of q in qkv; those of k and v are C and 2 C behind it
  const T *q, *k, *v;   // pointers to row 0 of the head

  /// Returns the offset of the head's row 0 in out and d_out.
  template <class E>
  __device__ __forceinline__ std::int64_t output(const AttentionShape<E>& shape) const {
    return b * shape.sequence * shape.channels + h * shape.head;
  }
  /// Returns the offset of the head's row 0 in lse and delta.
  template <class E>
  __device__ __forceinline__ std::int64_t statistics(const AttentionShape<E>& shape) const {
    return (b * shape.heads + h) * shape.sequence;
  }
};

/// Returns the work of this block. Blocks count (B, H, tiles of Own rows); with `last_first` the tiles are
/// counted backwards, so that the longest start first.
template <int Own, class T, class E>
__device__ __forceinline__ AttentionRows<T> attention_rows(const T* qkv,
                                                           const AttentionShape<E>& shape,
                                                           bool last_first) {
  const std::int64_t tiles = (shape.sequence + Own - 1) / Own;
  const std::int64_t block = blockIdx.x;
  const std::int64_t tile = block % tiles;
  const std::int64_t rest = block / tiles;
  AttentionRows<T> rows;
  rows.b = rest / shape.heads;
  rows.h = rest % shape.heads;
  rows.first = (last_first ? tiles - 1 - tile : tile) * Own;
  rows.pitch = 3 * shape.channels;
  rows.corner = rows.b * shape.sequence * rows.pitch + rows.h * shape.head;
  rows.q = qkv + rows.corner;
  rows.k = rows.q + shape.channels;
  rows.v = rows.k + shape.channels;
  return rows;
}

/// Loads rows x head elements, global rows first, first + 1, ..., to shared memory; writes zeros behind the head, up to
/// whole packs, and behind the sequence's end. `from` is row 0 of the head, `pitch` its row-to-row distance.
template <int Rows, int Threads, class E, class T>
__device__ __forceinline__ void load_rows(E* to, const T* from, std::int64_t pitch,
                                          std::int64_t first, std::int64_t sequence, int head,
                                          int stride) {
  constexpr int width = device::Pack<E>::width;
  const int warp = static_cast<int>(threadIdx.x) / device::cuda_warp;
  const int lane = static_cast<int>(threadIdx.x) % device::cuda_warp;
  const int depth = (head + width - 1) / width * width;
  for (int row = warp; row < Rows; row += Threads / device::cuda_warp) {
    const bool inside = first + row < sequence;
    const T* source = from + (first + row) * pitch;
    for (int c = lane; c < depth; c += device::cuda_warp) {
      to[row * stride + c] = inside && c < head ? static_cast<E>(source[c]) : E(0);
    }
  }
}

/// Computes product[i][j] = own row (y + 16 i) . streamed row (x + 16 j) in thread (y, x).
template <class E, int Own, int Streamed>
__device__ __forceinline__ void dot_rows(E (&product)[Own][Streamed], const E* own,
                                         const E* streamed, int head, int stride) {
  using device::Pack;
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int i = 0; i < Own; ++i) {
#pragma unroll
    for (int j = 0; j < Streamed; ++j) product[i][j] = 0;
  }
  for (int d = 0; d < head; d += Pack<E>::width) {
    Pack<E> left[Own];
    Pack<E> right[Streamed];
#pragma unroll
    for (int i = 0; i < Own; ++i) left[i] = Pack<E>::load(own + (y + 16 * i) * stride + d);
#pragma unroll
    for (int j = 0; j < Streamed; ++j)
      right[j] = Pack<E>::load(streamed + (x + 16 * j) * stride + d);
#pragma unroll
    for (int e = 0; e < Pack<E>::width; ++e) {
#pragma unroll
      for (int i = 0; i < Own; ++i) {
#pragma unroll
        for (int j = 0; j < Streamed; ++j)
          product[i][j] += left[i].element[e] * right[j].element[e];
      }
    }
  }
}

/// Returns the channel whose sum is element j of this thread's sums of a row; 16 threads share a row.
template <class E>
__device__ __forceinline__ int channel_of(int j) {
  constexpr int width = device::Pack<E>::width;
  return (static_cast<int>(threadIdx.x) % 16 + 16 * (j / width)) * width + j % width;
}

/// Computes sum[i][j] += sum over s of weights[y + 16 i, s] streamed[s, channel_of(j)], s ascending.
template <class E, int Own, int Channels>
__device__ __forceinline__ void add_weighted_rows(E (&sum)[Own][Channels], const E* weights,
                                                  int weight_stride, const E* streamed, int rows,
                                                  int head, int stride) {
  using device::Pack;
  constexpr int width = Pack<E>::width;
  const int y = static_cast<int>(threadIdx.x) / 16;
  for (int first = 0; first < rows; first += width) {
    Pack<E> weight[Own];
#pragma unroll
    for (int i = 0; i < Own; ++i)
      weight[i] = Pack<E>::load(weights + (y + 16 * i) * weight_stride + first);
#pragma unroll
    for (int s = 0; s < width; ++s) {
#pragma unroll
      for (int j = 0; j < Channels; j += width) {
        const int c = channel_of<E>(j);
        if (c >= head) continue;
        const Pack<E> values = Pack<E>::load(streamed + (first + s) * stride + c);
#pragma unroll
        for (int e = 0; e < width; ++e) {
#pragma unroll
          for (int i = 0; i < Own; ++i) sum[i][j + e] += weight[i].element[s] * values.element[e];
        }
      }
    }
  }
}

/// Writes sum[i][j] to rows first + y + 16 i of a head, row i scaled by factor[i].
template <class T, class E, int Own, int Channels>
__device__ __forceinline__ void store_rows(T* to, std::int64_t pitch, std::int64_t first,
                                           std::int64_t sequence, int head,
                                           const E (&sum)[Own][Channels], const E (&factor)[Own]) {
  const int y = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int i = 0; i < Own; ++i) {
    const std::int64_t row = first + y + 16 * i;
    if (row >= sequence) continue;
#pragma unroll
    for (int j = 0; j < Channels; ++j) {
      const int c = channel_of<E>(j);
      if (c < head) to[row * pitch + c] = T(sum[i][j] * factor[i]);
    }
  }
}

/// Returns the factor by which dropout multiplies the weight of key s for query t.
template <class E>
__device__ __forceinline__ E attention_dropout(const AttentionShape<E>& shape, std::int64_t b,
                                               std::int64_t h, std::int64_t t, std::int64_t s) {
  if (shape.rate <= 0.0F) return E(1);
  DrawKey key = shape.key;
  key.sample += static_cast<std::uint64_t>(b);
  const std::int64_t index = (h * shape.sequence + t) * shape.sequence + s;
  return dropout_factor(key, index, shape.rate, shape.kept);
}

/// Returns the sum, or in row_max the maximum, over the 16 threads that share an own row, to each of them.
template <class E>
__device__ __forceinline__ E row_sum(E value) {
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  return value;
}
template <class E>
__device__ __forceinline__ E row_max(E value) {
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2) {
    value = fmax(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
