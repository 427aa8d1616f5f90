#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <reef/codec/detail/selected.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/cuda/words.cuh>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>

namespace reef {
inline namespace v0 {
namespace compress::cuda {

/// A function that ranks number i by magnitude, then by lower index: no two ranks are equal, and TopK sends the k
/// largest.
struct RankOf {
  const float* values;

  __device__ std::uint64_t operator()(std::uint32_t i) const {
    return static_cast<std::uint64_t>(bits_of(values[i]) & 0x7fffffffU) << 32 | (0xffffffffU - i);
  }
};

/// A function that returns 8 bits of the rank of number i, from bit `shift` on, if the bits above equal `prefix`; else
/// -1.
struct DigitOf {
  static constexpr int bits = 8;
  static constexpr int digits = 1 << bits;
  RankOf rank;
  std::uint64_t prefix;
  int shift;

  __device__ int operator()(std::uint32_t i) const {
    const std::uint64_t high = rank(i) >> shift;
    return high >> bits == prefix ? static_cast<int>(high % digits) : -1;
  }
};

struct ReachesRank {
  RankOf rank;
  std::uint64_t least;

  __device__ bool operator()(std::uint32_t i) const { return rank(i) >= least; }
};

struct Gather {
  const float* values;
  const std::uint32_t* indices;
  float* to;

  __device__ void operator()(std::int64_t i) const { to[i] = values[indices[i]]; }
};

/// Selects on a GPU the numbers that codec::TopK sends, so that only these are copied to the host, which writes the
/// message.
///
/// | bytes  | those of TopK::encode: ties to the lower index, NaN above all                                       |
/// | cost   | numbers are read once for each 8 bits that tell the k-th from the next, 3 or 4 times as a rule, and |
/// |        | once more; 8 k bytes of device and of page-locked memory, and CUB's scratch, all allocated once     |
/// | errors | CudaError, MemoryError; OptionError as TopK::encode                                                 |
///
/// Call encode() from a function on a lane. A Trainer does not use this class, since ErrorFeedback's memory is the
/// host's.
class TopKEncoder {
public:
  explicit TopKEncoder(device::Cuda& device) : device_(device) {}

  /// Encodes n numbers in device memory as format.encode; blocks the lane's thread.
  Bytes encode(device::Cuda::Lane& lane, const codec::TopK& format, const float* values, std::int64_t n,
               std::span<std::byte> message) {
    const std::int64_t k = format.kept(n);
    reserve(n, k);
    const auto size = static_cast<std::size_t>(k);
    auto* const kept = static_cast<float*>(selected_here_.data());
    auto* const indices = reinterpret_cast<std::uint32_t*>(kept + size);
    if (k > 0) {
      auto* const kept_there = static_cast<float*>(selected_.data());
      auto* const indices_there = reinterpret_cast<std::uint32_t*>(kept_there + size);
      select(lane, values, n, rank_of_kth(lane, values, n, k), indices_there);
      device::for_each_index(lane, k, Gather{values, indices_there, kept_there});
      lane.copy(kept, kept_there, 2 * size * sizeof(float), device::Copy::to_host);
      lane.settle();
    }
    return codec::detail::write_selected(format, n, std::span<const std::uint32_t>(indices, size),
                                         [kept](std::size_t i) { return kept[i]; }, message);
  }

private:
  using Lane = device::Cuda::Lane;
  using Indices = thrust::counting_iterator<std::uint32_t>;

  void reserve(std::int64_t n, std::int64_t k) {
    const auto grow = [](auto& buffer, Bytes bytes, const auto& make) {
      if (buffer.bytes() < bytes) buffer = make(bytes);
    };
    const auto there = [&](Bytes bytes) { return device_.allocate(bytes, "top-k"); };
    const auto here = [&](Bytes bytes) { return device_.allocate_pinned(bytes, "top-k"); };
    const Bytes selected = 2 * static_cast<Bytes>(k) * sizeof(float);
    grow(selected_, selected, there);
    grow(selected_here_, selected, here);
    grow(counts_, DigitOf::digits * sizeof(unsigned), there);
    grow(counts_here_, DigitOf::digits * sizeof(unsigned), here);
    std::size_t of_counts = 0;
    std::size_t of_selection = 0;
    count(of_counts, nullptr, {}, n, nullptr);
    keep(of_selection, nullptr, {}, n, nullptr, nullptr);
    grow(room_, std::max<Bytes>({of_counts, of_selection, 1}), there);
  }

  /// Runs CUB's histogram; with `at` null it only sets `room` to the bytes that CUB needs. keep() does so for a
  /// selection.
  void count(std::size_t& room, void* at, const DigitOf& digit, std::int64_t n, cudaStream_t stream) {
    check_cub(cub::DeviceHistogram::HistogramEven(
        at, room, thrust::make_transform_iterator(Indices(0), digit),
        static_cast<unsigned*>(counts_.data()), DigitOf::digits + 1, 0, DigitOf::digits, n,
        stream));
  }
  void keep(std::size_t& room, void* at, const ReachesRank& reaches, std::int64_t n, std::uint32_t* indices,
            cudaStream_t stream) {
    check_cub(cub::DeviceSelect::If(at, room, Indices(0), indices,
                                    static_cast<unsigned*>(counts_.data()), n, reaches, stream));
  }
  void check_cub(cudaError_t code) const {
    device::detail::check_cuda(code, "cub (top-k)", device_.ordinal());
  }

  /// Returns a rank that exactly k of n numbers reach, found digit by digit from the highest.
  std::uint64_t rank_of_kth(Lane& lane, const float* values, std::int64_t n, std::int64_t k) {
    auto* const counts = static_cast<const unsigned*>(counts_here_.data());
    std::uint64_t prefix = 0;
    for (int shift = 64 - DigitOf::bits;; shift -= DigitOf::bits) {
      std::size_t room = room_.bytes();
      count(room, room_.data(), {{values}, prefix, shift}, n, lane.stream());
      lane.copy(counts_here_.data(), counts_.data(), counts_.bytes(), device::Copy::to_host);
      lane.settle();
      int digit = DigitOf::digits - 1;
      for (; counts[digit] < k; --digit) k -= counts[digit];
      prefix = prefix << DigitOf::bits | static_cast<std::uint64_t>(digit);
      if (counts[digit] == k) return prefix << shift;  // at the latest with the last digit: no two ranks are alike
    }
  }

  void select(Lane& lane, const float* values, std::int64_t n, std::uint64_t least, std::uint32_t* indices) {
    std::size_t room = room_.bytes();
    keep(room, room_.data(), {{values}, least}, n, indices, lane.stream());
  }

  device::Cuda& device_;
  device::Cuda::Buffer selected_{}, counts_{}, room_{};
  device::Cuda::PinnedBuffer selected_here_{}, counts_here_{};
};

}  // namespace compress::cuda
}  // namespace v0
}  // namespace reef
