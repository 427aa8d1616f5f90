#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {

/// The key of a random sequence. The random numbers depend on the key alone, not on rank, thread or order of draws.
///
/// | seed   | the seed of the run                                                           |
/// | sample | the global index of the training sample, 0 for draws that belong to no sample |
/// | draw   | the index of the draw among those of the operator, from 0                     |
/// | op     | the index of the operator in its graph, or of the parameter                   |
///
/// \code
/// const DrawKey key{.seed = 1, .sample = 42, .op = 3};
/// const float u = uniform(key, 7);  // element 7 of the sequence, on whatever rank
/// const double x = normal(key, 7);
/// \endcode
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t sample = 0;
  std::uint32_t draw = 0;
  std::uint32_t op = 0;

  friend constexpr bool operator==(const DrawKey&, const DrawKey&) = default;
};

namespace detail {

struct Wide {
  std::uint32_t high;
  std::uint32_t low;
};

REEF_HOST_DEVICE constexpr Wide multiply_wide(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

}  // namespace detail

/// The four random 32-bit words that Philox4x32-10 computes from a 128-bit counter and a 64-bit key.
///
/// | cost   | 20 wide multiplications; no state                                      |
/// | order  | the same words on every device                                         |
///
/// Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
struct Philox {
  std::uint32_t word[4];

  REEF_HOST_DEVICE constexpr Philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                    std::uint32_t c3, std::uint32_t k0, std::uint32_t k1)
      : word{c0, c1, c2, c3} {
    for (int round = 0; round < 10; ++round) {
      const detail::Wide a = detail::multiply_wide(0xD2511F53U, word[0]);
      const detail::Wide b = detail::multiply_wide(0xCD9E8D57U, word[2]);
      const std::uint32_t next[4] = {b.high ^ word[1] ^ k0, b.low, a.high ^ word[3] ^ k1, a.low};
      for (int i = 0; i < 4; ++i) word[i] = next[i];
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
  }
};

/// The sequence of random 32-bit words of one key, in blocks of four: word i is in block i / 4.
///
/// A first Philox, keyed by the seed, mixes sample, draw and op into the key and the counter's upper half,
/// so that two keys share no counter unless 64 bits collide. After construction each block costs one Philox.
class RandomStream {
public:
  REEF_HOST_DEVICE constexpr explicit RandomStream(const DrawKey& key)
      : RandomStream(key, Philox(static_cast<std::uint32_t>(key.sample),
                                 static_cast<std::uint32_t>(key.sample >> 32), key.draw, key.op,
                                 static_cast<std::uint32_t>(key.seed),
                                 static_cast<std::uint32_t>(key.seed >> 32))) {}

  [[nodiscard]] REEF_HOST_DEVICE constexpr Philox block(std::uint64_t index) const {
    return {static_cast<std::uint32_t>(index),
            static_cast<std::uint32_t>(index >> 32),
            c2_,
            c3_,
            k0_,
            k1_};
  }
  [[nodiscard]] REEF_HOST_DEVICE constexpr std::uint32_t bits(std::uint64_t index) const {
    return block(index / 4).word[index % 4];
  }

private:
  REEF_HOST_DEVICE constexpr RandomStream(const DrawKey& key, const Philox& drawn)
      : c2_(drawn.word[0]),
        c3_(drawn.word[1]),
        k0_(static_cast<std::uint32_t>(key.seed) ^ drawn.word[2]),
        k1_(static_cast<std::uint32_t>(key.seed >> 32) ^ drawn.word[3]) {}

  std::uint32_t c2_, c3_, k0_, k1_;
};

/// Returns the four random words that are elements 4 * block to 4 * block + 3 of the key's sequence.
REEF_HOST_DEVICE constexpr Philox random_block(const DrawKey& key, std::uint64_t block) {
  return RandomStream(key).block(block);
}

/// Returns element `index` of the key's sequence of uniform random 32-bit words.
REEF_HOST_DEVICE constexpr std::uint32_t random_bits(const DrawKey& key, std::uint64_t index) {
  return RandomStream(key).bits(index);
}

/// Converts a random 32-bit word to a uniform number in [0, 1), a multiple of 2^-24.
REEF_HOST_DEVICE constexpr float uniform_from(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24F;
}

/// Returns element `index` of the key's sequence of uniform random numbers in [0, 1), multiples of 2^-24.
REEF_HOST_DEVICE constexpr float uniform(const DrawKey& key, std::uint64_t index) {
  return uniform_from(random_bits(key, index));
}

namespace detail {

/// Evaluates a polynomial by Horner's rule, the coefficient of the highest power first.
REEF_HOST_DEVICE inline double polynomial(const double* c, int count, double x) {
  double value = c[0];
  for (int i = 1; i < count; ++i) value = fma(value, x, c[i]);
  return value;
}

/// Returns ln(x) of a normal positive x, by fma alone: the same bits on every device; error below 1e-15
/// absolute over the interval that `normal` uses.
REEF_HOST_DEVICE inline double log_exactly(double x) {
  int exponent = 0;
  double mantissa = frexp(x, &exponent);  // [0.5, 1)
  if (mantissa < 0.70710678118654752440) {
    mantissa += mantissa;
    exponent -= 1;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double s2 = fma(s, s, 0.0);
  constexpr double odd[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                            1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  const double series = polynomial(odd, 11, s2);
  return fma(static_cast<double>(exponent), 0.69314718055994530942, fma(2.0 * s, series, 0.0));
}

/// Returns the quantile of the standard normal distribution at p in (0, 1): Acklam's rational
/// approximation, relative error below 1.2e-9. Every product is inside an explicit fma, so that no
/// compiler can contract it differently, and the tails use log_exactly: the bits are the same everywhere.
REEF_HOST_DEVICE inline double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
                          6.680131188771972e+01,  -1.328068155288572e+01, 1.0};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                          3.754408661907416e+00, 1.0};
  const double tail = p < 0.5 ? p : 1.0 - p;
  if (tail < 0.02425) {
    const double q = sqrt(-2.0 * log_exactly(tail));
    const double x = polynomial(c, 6, q) / polynomial(d, 5, q);
    return p < 0.5 ? x : -x;
  }
  const double q = p - 0.5;
  const double r = fma(q, q, 0.0);
  return q * (polynomial(a, 6, r) / polynomial(b, 6, r));
}

}  // namespace detail

/// Converts a random 32-bit word to a standard normal number, |x| < 6.4, by inversion: 2^32 distinct values.
///
/// Source of the quantile: P. J. Acklam, An algorithm for computing the inverse normal cumulative
/// distribution function, 2003.
REEF_HOST_DEVICE inline double normal_from(std::uint32_t bits) {
  return detail::normal_quantile((static_cast<double>(bits) + 0.5) * 0x1p-32);
}

/// Returns element `index` of the key's sequence of standard normal random numbers.
REEF_HOST_DEVICE inline double normal(const DrawKey& key, std::uint64_t index) {
  return normal_from(random_bits(key, index));
}

static_assert(std::is_trivially_copyable_v<DrawKey>);

}  // namespace v0
}  // namespace reef
