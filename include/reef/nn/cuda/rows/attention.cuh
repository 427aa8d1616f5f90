#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <cuda/std/limits>

#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>
#include <reef/graph/rows.hpp>
#include <reef/nn/detail/alibi_slope.hpp>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// The keys and values of a head in one page of 64 positions, in the bytes of the host: keys (D, 64) and values (64,
/// D), stored as S; of int8 before them the scales of the 64 keys and of the 64 values, of type E.
template <class E, class S>
struct HeadPage {
  static constexpr int positions = static_cast<int>(graph::page_positions);
  static constexpr bool is_scaled = std::is_same_v<S, std::int8_t>;

  /// Returns the bytes of one position.
  REEF_HOST_DEVICE static Bytes bytes(std::int64_t D) {
    return static_cast<Bytes>(2 * D) * sizeof(S) + (is_scaled ? 2 * sizeof(E) : 0);
  }
  __device__ HeadPage(std::byte* page, std::int64_t D)
      : scales(reinterpret_cast<E*>(page)),
        keys(reinterpret_cast<S*>(page + (is_scaled ? 2 * positions * sizeof(E) : 0))),
        values(keys + positions * D) {}

  E* scales;  // (2, 64), where is_scaled
  S* keys;
  S* values;
};

/// The rows of a call and the pages of their sequences, in the memory of the device: position (R), then the place of
/// each row's first page among the addresses (R), then the addresses.
struct RowTable {
  const std::uint64_t* words;
  std::int64_t R;

  __device__ std::int64_t position(std::int64_t r) const {
    return static_cast<std::int64_t>(words[r]);
  }
  __device__ std::byte* page(std::int64_t r, std::int64_t i) const {
    return reinterpret_cast<std::byte*>(words[2 * R + static_cast<std::int64_t>(words[R + r]) + i]);
  }
  static Bytes bytes(std::int64_t R, std::int64_t pages) {
    return round_up(static_cast<Bytes>(R * (2 + pages)) * sizeof(std::uint64_t), 64);
  }
};

/// A function that writes words which it has brought along as a parameter of its kernel: nothing is copied, and nobody
/// waits.
struct StoreWords {
  static constexpr std::int64_t most = 448;
  std::uint64_t* to;
  std::uint64_t words[most];

  __device__ void operator()(std::int64_t i) const { to[i] = words[i]; }
};

/// Returns the greater number, or a NaN if one of the two is one.
template <class E>
__device__ __forceinline__ E larger_or_nan(E a, E b) {
  return a > b || a != a ? a : b;
}

/// Stores the keys and values of rows in their pages; a warp a head of a row.
template <class T, class S>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rows_states_kernel(RowTable table, const T* k, const T* v, std::int64_t ld, Bytes offset,
                       std::int64_t G, std::int64_t D) {
  using E = sum_t<T>;
  using Page = HeadPage<E, S>;
  const int lane = static_cast<int>(threadIdx.x) % device::cuda_warp;
  const std::int64_t task =
      static_cast<std::int64_t>(blockIdx.x) * (device::cuda_block / device::cuda_warp) +
      threadIdx.x / device::cuda_warp;
  if (task >= 2 * table.R * G) return;  // whole warps leave
  const bool is_value = task % 2 == 1;
  const std::int64_t r = task / 2 / G;
  const std::int64_t g = task / 2 % G;
  const std::int64_t position = table.position(r);
  const int place = static_cast<int>(position % Page::positions);
  const Page page(table.page(r, position / Page::positions) + offset +
                      static_cast<Bytes>(g * Page::positions) * Page::bytes(D),
                  D);
  const T* const from = (is_value ? v : k) + r * ld + g * D;
  S* const to = is_value ? page.values + place * D : page.keys + place;
  const std::int64_t stride = is_value ? 1 : Page::positions;
  if constexpr (!Page::is_scaled) {
    for (std::int64_t d = lane; d < D; d += device::cuda_warp) to[d * stride] = S(from[d]);
  } else {
    constexpr E most = (::cuda::std::numeric_limits<E>::max)();
    E largest = 0;
    for (std::int64_t d = lane; d < D; d += device::cuda_warp) {
      const E number = from[d];
      largest = larger_or_nan(number < E(0) ? -number : number, largest);
    }
#pragma unroll
    for (int half = device::cuda_warp / 2; half > 0; half /= 2) {
      largest = larger_or_nan(largest, __shfl_xor_sync(0xffffffffU, largest, half));
    }
    const bool finite = largest <= most;
    E inverse = finite && largest > E(0) ? E(127) / largest : E(0);
    if (!(inverse <= most)) inverse = 0;  // a largest that is subnormal counts as 0
    if (lane == 0) {
      page.scales[(is_value ? Page::positions : 0) + place] =
          finite ? largest / E(127) : ::cuda::std::numeric_limits<E>::quiet_NaN();
    }
    for (std::int64_t d = lane; d < D; d += device::cuda_warp) {
      const E rounded = rint(E{from[d]} * inverse);
      to[d * stride] = static_cast<S>(static_cast<int>(rounded == rounded ? rounded : E(0)));
    }
  }
}

/// What the kernels of attention over pages are told.
template <class E>
struct PagedAttentionShape {
  RowTable table;
  std::int64_t ld_q;
  Bytes offset;
  std::int64_t H, G, D, window, parts;
  E scale;  // 1 / sqrt(D)
  bool alibi;

  /// Returns the first position that a row at `position` attends to.
  __device__ std::int64_t first(std::int64_t position) const {
    return window == 0 || position < window ? 0 : position + 1 - window;
  }
};

/// The threads of a block of attention over pages, and the positions of its part of a sequence: [512 i, 512 (i + 1)).
inline constexpr int paged_threads = 128;
inline constexpr std::int64_t paged_part = 512;

/// The queries of a block, of any number of channels.
extern __shared__ __align__(16) unsigned char paged_shared[];

/// Attends with one head of one row to one part of its sequence, in two passes: over keys, then over values. A row that
/// has one part alone is finished; of others the largest score, the sum of exponentials and the weighted values (D) go
/// to `partial` (R, H, parts, D + 2). Sums are over positions in an order that the positions alone fix.
template <class T, class S>
REEF_HIDDEN __global__ void __launch_bounds__(paged_threads)
    paged_attention_kernel(T* out, sum_t<T>* partial, const T* q,
                           PagedAttentionShape<sum_t<T>> shape) {
  using E = sum_t<T>;
  using Page = HeadPage<E, S>;
  __shared__ E p[paged_part];
  E* const query = reinterpret_cast<E*>(paged_shared);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t part = blockIdx.x % shape.parts;
  const std::int64_t h = blockIdx.x / shape.parts % shape.H;
  const std::int64_t r = blockIdx.x / shape.parts / shape.H;
  const std::int64_t position = shape.table.position(r);
  const std::int64_t first = shape.first(position);
  const std::int64_t begin = part * paged_part;
  const std::int64_t low = first > begin ? first : begin;
  const std::int64_t end = position + 1 < begin + paged_part ? position + 1 : begin + paged_part;
  if (low >= end) return;  // the whole block
  const std::int64_t D = shape.D;
  const std::int64_t g = h / (shape.H / shape.G);
  const auto page_of = [&](std::int64_t s) {
    return Page(shape.table.page(r, s / Page::positions) + shape.offset +
                    static_cast<Bytes>(g * Page::positions) * Page::bytes(D),
                D);
  };
  for (std::int64_t d = thread; d < D; d += paged_threads)
    query[d] = static_cast<E>(q[r * shape.ld_q + h * D + d]);
  __syncthreads();
  const E slope = shape.alibi ? static_cast<E>(nn::detail::alibi_slope(h, shape.H)) : E(0);
  E largest = -::cuda::std::numeric_limits<E>::infinity();
  for (std::int64_t s = begin + thread; s < end; s += paged_threads) {
    if (s < low) continue;
    const Page page = page_of(s);
    const int place = static_cast<int>(s % Page::positions);
    E score = 0;
    for (std::int64_t d = 0; d < D; ++d)
      score = fma(query[d], static_cast<E>(page.keys[d * Page::positions + place]), score);
    if constexpr (Page::is_scaled) score = product(score, page.scales[place]);
    score = product(score, shape.scale);
    if (shape.alibi) score = fma(slope, static_cast<E>(s - position), score);
    p[s - begin] = score;
    largest = fmax(largest, score);
  }
  largest = device::block_max<paged_threads>(largest);
  E total = 0;
  for (std::int64_t s = begin + thread; s < end; s += paged_threads) {
    if (s < low) continue;
    const E weight = exp(p[s - begin] - largest);
    p[s - begin] = weight;
    total += weight;
  }
  total = device::block_sum<paged_threads>(total);
  __syncthreads();  // all weights are there
  const bool alone = first >= begin && position < begin + paged_part;
  E* const share = partial + ((r * shape.H + h) * shape.parts + part) * (D + 2);
  for (std::int64_t d = thread; d < D; d += paged_threads) {
    E sum = 0;
    for (std::int64_t s0 = low; s0 < end;) {
      const Page page = page_of(s0);
      const std::int64_t next = (s0 / Page::positions + 1) * Page::positions;
      const std::int64_t stop = next < end ? next : end;
      for (std::int64_t s = s0; s < stop; ++s) {
        const int place = static_cast<int>(s % Page::positions);
        E weight = p[s - begin];
        if constexpr (Page::is_scaled)
          weight = product(weight, page.scales[Page::positions + place]);
        sum = fma(weight, static_cast<E>(page.values[place * D + d]), sum);
      }
      s0 = stop;
    }
    if (alone) {
      out[(r * shape.H + h) * D + d] = T(sum / total);
    } else {
      share[2 + d] = sum;
    }
  }
  if (!alone && thread == 0) {
    share[0] = largest;
    share[1] = total;
  }
}

/// Joins the parts of heads of rows that have several, in ascending order; a block a head of a row.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(paged_threads)
    join_parts_kernel(T* out, const sum_t<T>* partial, PagedAttentionShape<sum_t<T>> shape) {
  using E = sum_t<T>;
  const std::int64_t position = shape.table.position(blockIdx.x / shape.H);
  const std::int64_t begin = shape.first(position) / paged_part;
  const std::int64_t end = position / paged_part + 1;
  if (end - begin == 1) return;
  const E* const shares = partial + blockIdx.x * shape.parts * (shape.D + 2);
  const auto share = [&](std::int64_t part) { return shares + part * (shape.D + 2); };
  E largest = share(begin)[0];
  for (std::int64_t part = begin + 1; part < end; ++part) largest = fmax(largest, share(part)[0]);
  E total = 0;
  for (std::int64_t part = begin; part < end; ++part)
    total = fma(share(part)[1], exp(share(part)[0] - largest), total);
  for (std::int64_t d = threadIdx.x; d < shape.D; d += paged_threads) {
    E sum = 0;
    for (std::int64_t part = begin; part < end; ++part)
      sum = fma(share(part)[2 + d], exp(share(part)[0] - largest), sum);
    out[blockIdx.x * shape.D + d] = T(sum / total);
  }
}

/// Attention of rows over the pages of their sequences, of RowKernels<device::Cuda>. Each block has one head of one row
/// and 512 positions; several blocks of a row are joined by one more kernel.
struct RowsAttention {
  template <real T>
  static Bytes rows_attention_state(std::int64_t G, std::int64_t D, graph::StateForm form) {
    return static_cast<Bytes>(G) *
           with_form<T>(form, [&](auto s) { return HeadPage<sum_t<T>, decltype(s)>::bytes(D); });
  }

  template <real T>
  static Bytes rows_attention_workspace(std::int64_t R, std::int64_t H, std::int64_t D,
                                        std::int64_t positions, int /*threads*/) {
    const std::int64_t parts = parts_of(positions);
    const Bytes partial =
        parts == 1 ? 0 : static_cast<Bytes>(R * H * parts * (D + 2)) * sizeof(sum_t<T>);
    return RowTable::bytes(R, pages_of(positions)) + partial;
  }

  template <real T>
  static void rows_attention(device::Cuda::Lane& lane, T* out, const T* q, const T* k, const T* v,
                             std::int64_t ld_q, std::int64_t ld_kv,
                             std::span<const graph::Row> rows, std::span<const graph::Pages> pages,
                             Bytes offset, std::int64_t H, std::int64_t G, std::int64_t D,
                             std::int64_t window, bool alibi, const graph::RowOptions& options,
                             void* workspace) {
    using E = sum_t<T>;
    const std::int64_t R = std::ssize(rows);
    std::int64_t last = 0;
    for (const graph::Row& row : rows) last = (std::max)(last, row.position);
    const RowTable table = write_table(lane, rows, pages, workspace);
    auto* const partial = reinterpret_cast<E*>(static_cast<std::byte*>(workspace) +
                                               RowTable::bytes(R, pages_of(options.positions)));
    const std::int64_t parts = parts_of(last + 1);
    const PagedAttentionShape<E> shape{
        table, ld_q, offset, H, G, D, window, parts, E(1) / std::sqrt(static_cast<E>(D)), alibi};
    with_form<T>(options.states, [&](auto s) {
      using S = decltype(s);
      constexpr std::int64_t warps = device::cuda_block / device::cuda_warp;
      device::launch(lane, "rows_attention (states)", &rows_states_kernel<T, S>,
                     (2 * R * G + warps - 1) / warps, device::cuda_block, 0, table, k, v, ld_kv,
                     offset, G, D);
      device::launch(lane, "rows_attention", &paged_attention_kernel<T, S>, R * H * parts,
                     paged_threads, static_cast<std::size_t>(D) * sizeof(E), out, partial, q,
                     shape);
    });
    if (parts > 1) {
      device::launch(lane, "rows_attention (join)", &join_parts_kernel<T>, R * H, paged_threads, 0,
                     out, partial, shape);
    }
  }

private:
  static std::int64_t pages_of(std::int64_t positions) {
    return (positions + graph::page_positions - 1) / graph::page_positions;
  }
  static std::int64_t parts_of(std::int64_t positions) {
    return (positions + paged_part - 1) / paged_part;
  }

  // Calls use(S()) with a number of the type in which pages store numbers.
  template <real T, class Use>
  static auto with_form(graph::StateForm form, const Use& use) {
    switch (form) {
      case graph::StateForm::bf16: return use(Bfloat16());
      case graph::StateForm::int8: return use(std::int8_t());
      case graph::StateForm::as_given: break;
    }
    return use(T());
  }

  static RowTable write_table(device::Cuda::Lane& lane, std::span<const graph::Row> rows,
                              std::span<const graph::Pages> pages, void* to) {
    const std::size_t R = rows.size();
    std::vector<std::int64_t> read(pages.size(), 0);  // the pages of a sequence up to its last row
    for (const graph::Row& row : rows) {
      std::int64_t& count = read[static_cast<std::size_t>(row.sequence)];
      count = (std::max)(count, row.position / graph::page_positions + 1);
    }
    std::vector<std::uint64_t> words(2 * R);
    std::vector<std::uint64_t> places(pages.size(), 0);
    for (std::size_t s = 0; s < pages.size(); ++s) {
      places[s] = words.size() - 2 * R;
      for (std::int64_t i = 0; i < read[s]; ++i) {
        words.push_back(reinterpret_cast<std::uint64_t>(pages[s][static_cast<std::size_t>(i)]));
      }
    }
    for (std::size_t r = 0; r < R; ++r) {
      words[r] = static_cast<std::uint64_t>(rows[r].position);
      words[R + r] = places[static_cast<std::size_t>(rows[r].sequence)];
    }
    auto* const own = static_cast<std::uint64_t*>(to);
    for (std::int64_t first = 0; first < std::ssize(words); first += StoreWords::most) {
      const std::int64_t count = (std::min)(StoreWords::most, std::ssize(words) - first);
      StoreWords store{own + first, {}};
      std::copy_n(words.begin() + first, count, store.words);
      device::for_each_index(lane, count, store);
    }
    return {own, static_cast<std::int64_t>(R)};
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
