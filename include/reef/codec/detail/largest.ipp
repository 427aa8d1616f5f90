#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>

#include <reef/codec/detail/largest.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// Keeps what is above a magnitude, and counts it: the zeros behind the last number never are.
struct KeepAbove {
  template <class V>
  void run(const float* values, std::int64_t n, std::uint32_t first, std::int32_t bits, std::uint32_t* indices,
           float* kept, std::size_t* count) const {
    std::size_t found = 0;
    for (std::int64_t i = 0; i < n; i += V::width) {
      for (auto mask = magnitudes_above(V::load(values + i, n - i), bits); mask != 0; mask &= mask - 1) {
        const std::int64_t at = i + std::countr_zero(mask);
        indices[found] = first + static_cast<std::uint32_t>(at);
        kept[found++] = values[at];
      }
    }
    *count = found;
  }
};

/// What is above a magnitude, in pieces by ascending index; cut short if it is more than `most`.
inline std::vector<Selected> all_above(std::span<const float> values, std::int32_t bits, std::size_t expected,
                                       std::size_t most, const Threads& threads) {
  constexpr std::size_t part = std::size_t{1} << 18;
  constexpr std::size_t together = 4096;
  std::vector<Selected> pieces((values.size() + part - 1) / part);
  std::atomic<std::size_t> total{0};
  threads(std::ssize(pieces), [&](std::int64_t p) {
    Selected& own = pieces[static_cast<std::size_t>(p)];
    own.indices.reserve(expected / pieces.size());
    own.values.reserve(expected / pieces.size());
    std::uint32_t indices[together];
    float kept[together];
    const std::size_t begin = static_cast<std::size_t>(p) * part;
    const std::size_t end = (std::min)(values.size(), begin + part);
    for (std::size_t i = begin; i < end && total.load(std::memory_order_relaxed) <= most; i += together) {
      std::size_t count = 0;
      device::run_vectors<float>(KeepAbove{}, values.data() + i,
                                 static_cast<std::int64_t>((std::min)(together, end - i)),
                                 static_cast<std::uint32_t>(i), bits, indices, kept, &count);
      own.indices.insert(own.indices.end(), indices, indices + count);
      own.values.insert(own.values.end(), kept, kept + count);
      total.fetch_add(count, std::memory_order_relaxed);
    }
  });
  return pieces;
}

/// The k of largest magnitude of those that `each` calls its argument with, by ascending index; k from 1.
template <class Each>
Selected select(const Each& each, std::size_t k) {
  constexpr unsigned low_bits = 16;
  std::vector<std::uint32_t> classes(std::size_t{1} << (31 - low_bits));  // by the high bits of the magnitude
  each([&](std::uint32_t, float value) { ++classes[magnitude_bits(value) >> low_bits]; });
  std::size_t above = 0;  // numbers of higher classes than that of the k-th
  std::size_t last = classes.size() - 1;
  while (above + classes[last] < k) above += classes[last--];
  std::vector<std::uint32_t> candidates;
  candidates.reserve(classes[last]);
  each([&](std::uint32_t, float value) {
    const std::uint32_t bits = magnitude_bits(value);
    if (bits >> low_bits == last) candidates.push_back(bits);
  });
  const std::size_t of_class = k - above;  // from 1
  const auto kth = candidates.begin() + static_cast<std::ptrdiff_t>(of_class - 1);
  std::nth_element(candidates.begin(), kth, candidates.end(), std::greater<>{});
  const std::uint32_t threshold = *kth;
  const auto larger = std::count_if(candidates.begin(), kth, [&](std::uint32_t bits) { return bits > threshold; });
  std::size_t as_large = of_class - static_cast<std::size_t>(larger);  // that are taken, the lowest
  Selected selected{std::vector<std::uint32_t>(k + 1), std::vector<float>(k + 1)};  // one to be overwritten
  std::size_t kept = 0;
  each([&](std::uint32_t index, float value) {
    const std::uint32_t bits = magnitude_bits(value);
    selected.indices[kept] = index;
    selected.values[kept] = value;
    if (bits == threshold) {
      if (as_large > 0) ++kept, --as_large;
    } else {
      kept += bits > threshold ? 1 : 0;
    }
  });
  selected.indices.pop_back();
  selected.values.pop_back();
  return selected;
}

/// A magnitude that, as a sample says, some more than k reach, and few numbers are above; 0 if it says nothing.
inline std::uint32_t sampled_threshold(std::span<const float> values, std::size_t k) {
  constexpr std::size_t run = 16;  // numbers side by side
  const std::size_t runs = std::clamp<std::size_t>(values.size() / 512, 4096, 32768) / run;
  const std::size_t stride = values.size() / runs;
  std::vector<std::uint32_t> sample;
  sample.reserve(runs * run);
  for (std::size_t i = 0; i < runs; ++i) {
    const std::size_t moved = i * 0x9e3779b97f4a7c15U >> 20;  // no pattern of the numbers meets it
    const std::size_t begin = i * stride + moved % (stride - run);
    for (std::size_t j = 0; j < run; ++j) sample.push_back(magnitude_bits(values[begin + j]));
  }
  const double mean = static_cast<double>(k) * static_cast<double>(sample.size()) / static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(mean + 5 * std::sqrt(mean) + 8);
  if (rank >= sample.size()) return 0;
  const auto at = sample.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sample.begin(), at, sample.end(), std::greater<>{});
  return *at;
}

REEF_INLINE Selected largest(std::span<const float> values, std::int64_t k, const Threads& threads) {
  constexpr std::size_t least_sampled = 65536;
  const auto wanted = static_cast<std::size_t>(k);
  if (wanted == 0) return {};
  if (values.size() >= least_sampled && wanted <= values.size() / 8) {
    const std::uint32_t threshold = sampled_threshold(values, wanted);
    const std::size_t most = values.size() / 4;
    std::vector<Selected> pieces;
    if (threshold > 0)
      pieces = all_above(values, static_cast<std::int32_t>(threshold - 1), wanted * 3 / 2, most, threads);
    std::size_t found = 0;
    for (const Selected& piece : pieces) found += piece.values.size();
    const auto each = [&](const auto& f) {
      for (const Selected& piece : pieces) {
        for (std::size_t i = 0; i < piece.values.size(); ++i) f(piece.indices[i], piece.values[i]);
      }
    };
    if (found >= wanted && found <= most) return select(each, wanted);
  }
  const auto each = [&](const auto& f) {
    for (std::size_t i = 0; i < values.size(); ++i) f(static_cast<std::uint32_t>(i), values[i]);
  };
  return select(each, wanted);
}

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
