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
#include <reef/nn/detail/alibi_slope.hpp>

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

/// The parameters of all attention kernels, which compute in E. out and d_out are (B, T, H D), lse and delta (B, H, T);
/// head h of the queries reads head h / shared_by of the keys and values. Query t sees the keys (t - window, t].
template <class E>
struct AttentionShape {
  std::int64_t sequence;   // below 2^31
  std::int64_t heads;      // the number of heads of queries
  std::int64_t shared_by;  // the number of heads of queries for each head of keys and values
  std::int64_t pitch_q,
      pitch_kv;  // the distances of rows of queries, and of keys and values; of their gradients too
  int window;    // the number of keys that a query sees; at most the sequence
  int head;      // D
  E scale;       // 1 / sqrt(D)
  float rate;    // the dropout rate; 0: no dropout
  E kept;        // 1 / (1 - rate)
  DrawKey key;   // the key of batch row 0
  bool alibi;    // scores fall with the distance

  __host__ __device__ std::int64_t channels() const { return heads * head; }
  __host__ __device__ std::int64_t kv_heads() const { return heads / shared_by; }

  /// Returns whether a query sees the key that is `distance` tokens before it.
  __device__ __forceinline__ bool sees(int distance) const {
    return static_cast<unsigned>(distance) < static_cast<unsigned>(window);
  }
  /// Returns the slope of ALiBi for a head of queries, of scores that are not scaled yet; 0 without the bias.
  __device__ __forceinline__ E slope(std::int64_t query_head) const {
    return alibi ? static_cast<E>(nn::detail::alibi_slope(query_head, heads)) / scale : E(0);
  }
};

/// Pointers to queries, keys and values, or to their gradients: to row 0 of the first head of sample 0.
template <class T>
struct AttentionOperands {
  T *q, *k, *v;
};

/// The part of the (T, T) scores that a block holds at once: the `own` rows that it is responsible for,
/// times `streamed` rows of the other side, with heads of at most Head channels.
///
/// A block is 16 x 16 threads; thread (y, x) handles the own rows y + 16 i, the streamed rows x + 16 j and the packs
/// x + 16 j of channels, of 16 bytes each. Rows in shared memory are whole packs, an odd number of them, so that
/// threads which read one pack of eight rows hit different banks. The sizes keep every kernel's shared memory within
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

/// The rows that one block computes: those from `first` on, of head h of sample b. Several heads of queries may share a
/// head of keys and values. Its functions return offsets, in elements.
struct AttentionRows {
  std::int64_t b, h, first;

  /// Returns the offset of row 0 of a head of queries in out and d_out.
  template <class E>
  __device__ __forceinline__ std::int64_t output(const AttentionShape<E>& shape,
                                                 std::int64_t query_head) const {
    return b * shape.sequence * shape.channels() + query_head * shape.head;
  }
  /// Returns the offset of row 0 of a head of queries in lse and delta.
  template <class E>
  __device__ __forceinline__ std::int64_t statistics(const AttentionShape<E>& shape,
                                                     std::int64_t query_head) const {
    return (b * shape.heads + query_head) * shape.sequence;
  }
  /// Returns the offset of row 0 of a head of queries in q and d_q.
  template <class E>
  __device__ __forceinline__ std::int64_t query(const AttentionShape<E>& shape,
                                                std::int64_t query_head) const {
    return b * shape.sequence * shape.pitch_q + query_head * shape.head;
  }
  /// Returns the offset of row 0 of a head of keys, or of values, in k, v, d_k and d_v.
  template <class E>
  __device__ __forceinline__ std::int64_t key(const AttentionShape<E>& shape,
                                              std::int64_t key_head) const {
    return b * shape.sequence * shape.pitch_kv + key_head * shape.head;
  }
};

/// Blocks count (B, heads, tiles of Own rows), the tiles backwards where `last_first`: the longest start
/// first.
template <int Own>
__device__ __forceinline__ AttentionRows attention_rows(std::int64_t sequence, std::int64_t heads,
                                                        bool last_first) {
  const std::int64_t tiles = (sequence + Own - 1) / Own;
  const std::int64_t block = blockIdx.x;
  const std::int64_t tile = block % tiles;
  const std::int64_t rest = block / tiles;
  return {rest / heads, rest % heads, (last_first ? tiles - 1 - tile : tile) * Own};
}

/// The first tile of `Streamed` keys of which queries from q0 on see one.
template <int Streamed, class E>
__device__ __forceinline__ std::int64_t first_keys(const AttentionShape<E>& shape,
                                                   std::int64_t q0) {
  const std::int64_t first = q0 - shape.window + 1;
  return first > 0 ? first / Streamed * Streamed : 0;
}

/// The end of the queries that see one of `Own` keys from k0 on.
template <int Own, class E>
__device__ __forceinline__ std::int64_t last_queries(const AttentionShape<E>& shape,
                                                     std::int64_t k0) {
  const std::int64_t end = k0 + Own - 1 + shape.window;
  return end < shape.sequence ? end : shape.sequence;
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

/// Adds slope (key - query) to scores that are not scaled yet. `ahead` is key - query of score[0][0], which falls by
/// `step` with each own row, and grows by it with each streamed row: 16 if queries are the own rows, -16 if keys are.
template <class E, int Own, int Streamed>
__device__ __forceinline__ void add_alibi(E (&score)[Own][Streamed], E slope, int ahead, int step) {
#pragma unroll
  for (int i = 0; i < Own; ++i) {
#pragma unroll
    for (int j = 0; j < Streamed; ++j) score[i][j] += slope * static_cast<E>(ahead + step * (j - i));
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
