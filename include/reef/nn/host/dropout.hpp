#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/random.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/elementwise.hpp>

namespace reef::inline v0::nn::host {

/// factors[i] = what dropout multiplies element first + i by: 0 where uniform(key, first + i) is
/// below rate, else 1 / (1 - rate).
template <real T>
void dropout_factors(T* factors, const DrawKey& key, std::uint64_t first, std::int64_t count,
                     float rate) {
  // uniform(bits) >= rate, exactly, in integers: a uniform number is (bits >> 8) 2^-24.
  const auto threshold = static_cast<std::uint32_t>(std::ceil(static_cast<double>(rate) * 0x1p24));
  const T kept = T(1) / (T(1) - static_cast<T>(rate));
  for (std::int64_t i = 0; i < count;) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(i);
    const Philox words = random_block(key, index / 4);
    for (std::uint64_t word = index % 4; word < 4 && i < count; ++word, ++i) {
      factors[i] = (words.word[word] >> 8) >= threshold ? kept : T(0);
    }
  }
}

namespace detail {

struct MultiplyAdd {
  template <class V>
  void run(typename V::element_type* out, const typename V::element_type* a,
           const typename V::element_type* b, std::int64_t n, bool accumulate) const {
    using T = typename V::element_type;
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V before = accumulate ? V::load(out + i, n - i) : V(T(0));
      fma(V::load(a + i, n - i), V::load(b + i, n - i), before).store(out + i, n - i);
    }
  }
};

}  // namespace detail

struct Dropout {
  template <real T>
  static void dropout(device::Host::Lane& lane, T* out, const T* in, std::int64_t per_sample,
                      std::int64_t samples, float rate, DrawKey key, bool accumulate) {
    if (rate <= 0.0F) {
      Elementwise::copy_or_add(lane, out, in, per_sample * samples, accumulate);
      return;
    }
    constexpr std::int64_t block = 4096;  // a multiple of 4: no block of words is drawn twice
    const std::int64_t blocks = (per_sample + block - 1) / block;
    lane.parallel(blocks * samples, [&](std::int64_t part) {
      alignas(64) T factors[block];
      const std::int64_t sample = part / blocks;
      const std::int64_t begin = part % blocks * block;
      const std::int64_t count = std::min(block, per_sample - begin);
      DrawKey sample_key = key;
      sample_key.sample += static_cast<std::uint64_t>(sample);
      dropout_factors(factors, sample_key, static_cast<std::uint64_t>(begin), count, rate);
      const std::int64_t at = sample * per_sample + begin;
      device::run_vectors<T>(detail::MultiplyAdd{}, out + at, in + at,
                             static_cast<const T*>(factors), count, accumulate);
    });
  }
};

}  // namespace reef::inline v0::nn::host
