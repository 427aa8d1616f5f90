#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/random.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/elementwise.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// A function that writes dropout's factors of 64 * `groups` elements, from the Philox random blocks `first`, first +
/// 1, ...: sixteen blocks at a time, word by word, which the compiler turns into vectors of the instruction set in use.
struct DropoutBlocks {
  template <class V>
  void run(typename V::element_type* factors, const DrawKey& key, std::uint64_t first,
           std::int64_t groups, std::uint32_t threshold, typename V::element_type kept) const {
    using T = typename V::element_type;
    constexpr int width = 16;
    const auto k0 = static_cast<std::uint32_t>(key.seed);
    const auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
    const Philox stream(static_cast<std::uint32_t>(key.sample),
                        static_cast<std::uint32_t>(key.sample >> 32), key.draw, key.op, k0, k1);
    for (std::int64_t group = 0; group < groups; ++group) {
      std::uint32_t w0[width], w1[width], w2[width], w3[width];
      for (int i = 0; i < width; ++i) {
        const std::uint64_t block = first + static_cast<std::uint64_t>(group * width + i);
        w0[i] = static_cast<std::uint32_t>(block);
        w1[i] = static_cast<std::uint32_t>(block >> 32);
        w2[i] = stream.word[0];
        w3[i] = stream.word[1];
      }
      std::uint32_t key0 = k0 ^ stream.word[2];
      std::uint32_t key1 = k1 ^ stream.word[3];
      for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < width; ++i) {
          const std::uint64_t a = std::uint64_t{w0[i]} * 0xD2511F53U;
          const std::uint64_t b = std::uint64_t{w2[i]} * 0xCD9E8D57U;
          w0[i] = static_cast<std::uint32_t>(b >> 32) ^ w1[i] ^ key0;
          w1[i] = static_cast<std::uint32_t>(b);
          w2[i] = static_cast<std::uint32_t>(a >> 32) ^ w3[i] ^ key1;
          w3[i] = static_cast<std::uint32_t>(a);
        }
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
      }
      T* const to = factors + 4 * width * group;
      for (int i = 0; i < width; ++i) {
        to[4 * i] = (w0[i] >> 8) >= threshold ? kept : T(0);
        to[4 * i + 1] = (w1[i] >> 8) >= threshold ? kept : T(0);
        to[4 * i + 2] = (w2[i] >> 8) >= threshold ? kept : T(0);
        to[4 * i + 3] = (w3[i] >> 8) >= threshold ? kept : T(0);
      }
    }
  }
};

}  // namespace detail

/// Writes to factors[i] the number by which dropout multiplies element first + i: 0 if
/// uniform(key, first + i) is below rate, else 1 / (1 - rate).
template <std::floating_point T>
void dropout_factors(T* factors, const DrawKey& key, std::uint64_t first, std::int64_t count,
                     float rate) {
  // An integer comparison with `threshold` decides exactly as uniform(bits) >= rate, since a uniform number is (bits >>
  // 8) 2^-24.
  const auto threshold = static_cast<std::uint32_t>(std::ceil(static_cast<double>(rate) * 0x1p24));
  const T kept = T(1) / (T(1) - static_cast<T>(rate));
  const auto one_by_one = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::uint64_t index = first + static_cast<std::uint64_t>(i);
      const Philox words = random_block(key, index / 4);
      for (std::uint64_t word = index % 4; word < 4 && i < end; ++word, ++i) {
        factors[i] = (words.word[word] >> 8) >= threshold ? kept : T(0);
      }
    }
  };
  const std::int64_t aligned = (std::min)(count, static_cast<std::int64_t>((4 - first % 4) % 4));
  const std::int64_t groups = (count - aligned) / 64;
  one_by_one(0, aligned);
  device::run_vectors<T>(detail::DropoutBlocks{}, factors + aligned, key,
                         (first + static_cast<std::uint64_t>(aligned)) / 4, groups, threshold,
                         kept);
  one_by_one(aligned + 64 * groups, count);
}

namespace detail {

struct MultiplyAdd {
  template <class V, class S, class T = typename V::element_type>
  void run(S* out, const S* a, const T* b, std::int64_t n, bool accumulate) const {
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
      alignas(64) sum_t<T> factors[block];
      const std::int64_t sample = part / blocks;
      const std::int64_t begin = part % blocks * block;
      const std::int64_t count = (std::min)(block, per_sample - begin);
      DrawKey sample_key = key;
      sample_key.sample += static_cast<std::uint64_t>(sample);
      dropout_factors(factors, sample_key, static_cast<std::uint64_t>(begin), count, rate);
      const std::int64_t at = sample * per_sample + begin;
      device::run_vectors<T>(detail::MultiplyAdd{}, out + at, in + at,
                             static_cast<const sum_t<T>*>(factors), count, accumulate);
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
