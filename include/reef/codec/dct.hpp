#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/name.hpp>
#include <reef/core/error.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that encodes a cosine transform of the numbers with the inner codec: numbers that vary slowly take few
/// coefficients.
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
/// | blocks | counted from the first number; the last may be shorter, with a transform of its own length      |
/// | wire   | a message of the inner codec                                                                    |
/// | bits   | sums in fp32, in ascending order of the numbers: the same on one machine and build, as PowerSgd |
/// | not finite | one number that is not finite makes all of its block so                                     |
/// | cost   | B multiplications per number on each end, and n numbers of scratch at the sender                |
/// | errors | OptionError for a block below 1 or above 4096; those of the inner codec                         |
///
/// Source: DeMo, arXiv 2411.19870, algorithm 1, with codec::ErrorFeedback around it: optim::SignSgd says how.
/// Deviation: blocks of B consecutive numbers, where theirs are squares of up to 64 by 64 of a matrix.
template <codec C>
struct Dct {
  C inner{};
  std::int64_t block = 64;  ///< the count B of numbers in a block that is transformed

  static constexpr std::string_view name = detail::joined_name<detail::dct_name, C>;
  static constexpr bool exact = C::exact;
  static constexpr bool lossless = false;
  /// False: messages of sums are only nearly the sums of messages, since a transform is rounded.
  static constexpr bool linear = false;

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
  /// The factors of a block's transform, one for each pair of number and coefficient. For a block of up to 512 numbers
  /// they are in a table of size^2 entries; for a larger one each is computed from a table of 4 * size cosines.
  class Factors {
  public:
    Factors(std::size_t size, bool back) : size_(size), back_(back), cosines_(4 * size) {
      for (std::size_t m = 0; m < cosines_.size(); ++m) {
        cosines_[m] = std::cos(std::numbers::pi * static_cast<double>(m) / (2.0 * static_cast<double>(size)));
      }
      if (size > max_in_table) return;
      table_.resize(size * size);
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t k = 0; k < size; ++k) table_[i * size + k] = factor(i, k);
      }
    }

    [[nodiscard]] std::size_t size() const { return size_; }

    /// Adds number i of a block, times its factor in coefficient k, to to[k] for all k; the inverse transposes the
    /// factors.
    void add(std::size_t i, float number, std::span<float> to) const {
      if (table_.empty()) {
        for (std::size_t k = 0; k < size_; ++k) to[k] += product(factor(i, k), number);
        return;
      }
      detail::add_multiple(to, number, table_.data() + i * size_);
    }

  private:
    static constexpr std::size_t max_in_table = 512;

    [[nodiscard]] float factor(std::size_t i, std::size_t k) const {
      if (back_) std::swap(i, k);
      return static_cast<float>((k == 0 ? first_ : other_) * cosines_[(2 * i + 1) * k % cosines_.size()]);
    }

    std::size_t size_;
    bool back_;
    double first_ = std::sqrt(1.0 / static_cast<double>(size_));  ///< scale of coefficient 0 of the transform, s[0]
    double other_ = std::sqrt(2.0 / static_cast<double>(size_));
    std::vector<double> cosines_;  ///< table of cosines: entry m is cos(pi m / (2 size_))
    std::vector<float> table_{};
  };

  void transform(std::span<float> values, bool back) const {
    const auto whole = (std::min)(static_cast<std::size_t>(block), values.size());
    std::vector<float> row(whole);
    Factors own(whole, back);
    for (std::size_t begin = 0; begin < values.size(); begin += whole) {
      const std::span<float> numbers =
          values.subspan(begin, (std::min)(whole, values.size() - begin));
      const std::size_t size = numbers.size();
      if (own.size() != size) own = Factors(size, back);
      const std::span<float> to = std::span(row).first(size);
      std::fill(to.begin(), to.end(), 0.0F);
      for (std::size_t i = 0; i < size; ++i) own.add(i, numbers[i], to);
      std::copy(to.begin(), to.end(), numbers.begin());
    }
  }
};

static_assert(codec<Dct<ChunkTopK>>);

}  // namespace codec
}  // namespace v0
}  // namespace reef
