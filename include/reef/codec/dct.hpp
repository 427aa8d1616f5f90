#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/detail/name.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::codec {

/// The inner codec of a cosine transform of the numbers: what is alike from number to number takes few coefficients.
///
///     X[k] = s[k] sum over i of x[i] cos(pi (2 i + 1) k / (2 B))     DCT-II of each block of B numbers
///     s[0] = sqrt(1 / B), else sqrt(2 / B)                           orthonormal: decode applies the transpose
///
/// \code
/// // given: std::span<const float> values
/// const codec::Dct<codec::ChunkTopK> format{{.chunk = 4096, .keep = 32}, 64};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// message.resize(format.encode(values, message));
/// \endcode
///
/// | blocks | from the first number on; the last may be shorter, with a transform of its own length            |
/// | wire   | a message of the inner codec                                                                     |
/// | bits   | sums of products in fp32 in the order of numbers: those of a machine and a build, as PowerSgd    |
/// | not finite | makes all of its block so                                                                    |
/// | cost   | B multiplications a number on each end, and n numbers of scratch at the sender                   |
/// | errors | OptionError for a block below 1 or above 4096; those of the inner codec                          |
///
/// Source: DeMo, arXiv 2411.19870, algorithm 1, with codec::ErrorFeedback around it: optim::SignSgd says how. Deviation:
/// blocks of B consecutive numbers, where theirs are squares of up to 64 by 64 of a matrix.
template <codec C>
struct Dct {
  C inner{};
  std::int64_t block = 64;  ///< B

  static constexpr std::string_view name = detail::joined_name<detail::dct_name, C>;
  static constexpr bool exact = C::exact;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;  ///< but for rounding it would be

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const {
    if (block < 1 || block > 4096) {
      throw OptionError("reef::codec::Dct: a block of ", block, " numbers.\n  fix: from 1 to 4096.");
    }
    return inner.encoded_bytes(n);
  }

  Bytes encode(std::span<const float> values, std::span<std::byte> message) const {
    static_cast<void>(encoded_bytes(static_cast<std::int64_t>(values.size())));
    std::vector<float> coefficients(values.begin(), values.end());
    transform(coefficients, false);
    return inner.encode(coefficients, message);
  }

  void decode(std::span<const std::byte> message, std::span<float> values) const {
    static_cast<void>(encoded_bytes(static_cast<std::int64_t>(values.size())));
    inner.decode(message, values);
    transform(values, true);
  }

private:
  /// Of B numbers: row i has what number i is multiplied by in X[0], X[1], ...; for the way back, transposed.
  static std::vector<float> factors(std::size_t size, bool back) {
    std::vector<double> cosines(4 * size);  // of pi m / (2 B)
    for (std::size_t m = 0; m < cosines.size(); ++m) {
      cosines[m] = std::cos(std::numbers::pi * static_cast<double>(m) / (2.0 * static_cast<double>(size)));
    }
    std::vector<float> all(size * size);
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t k = 0; k < size; ++k) {
        const double scale = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(size));
        all[back ? k * size + i : i * size + k] = static_cast<float>(scale * cosines[(2 * i + 1) * k % cosines.size()]);
      }
    }
    return all;
  }

  void transform(std::span<float> values, bool back) const {
    const auto whole = std::min(static_cast<std::size_t>(block), values.size());
    std::vector<float> row(whole);
    std::vector<float> own;
    for (std::size_t begin = 0; begin < values.size(); begin += whole) {
      const std::span<float> numbers = values.subspan(begin, std::min(whole, values.size() - begin));
      const std::size_t size = numbers.size();
      if (own.size() != size * size) own = factors(size, back);
      const std::span<float> to = std::span(row).first(size);
      std::fill(to.begin(), to.end(), 0.0F);
      for (std::size_t i = 0; i < size; ++i) {
        const float* const factor = own.data() + i * size;
        for (std::size_t k = 0; k < size; ++k) to[k] += factor[k] * numbers[i];
      }
      std::copy(to.begin(), to.end(), numbers.begin());
    }
  }
};

static_assert(codec<Dct<ChunkTopK>>);

}  // namespace reef::inline v0::codec
