#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/selecting.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that sends one in `ratio` numbers, selected by random numbers that both ends draw alike, so that no index is
/// sent. The others decode to 0.
///
///     payload   values, fp32, by index
///
/// \code
/// // given: std::uint32_t step, std::span<const float> values
/// const codec::RandomK format{.ratio = 100, .seed = 7, .draw = step};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, message);
/// \endcode
///
/// | wire   | k = n / ratio, rounded up: 4 bytes each                                                          |
/// | drawn  | every set of k is equally likely; it depends on (seed, draw, n, k): use a new draw for each step |
/// | unbiased | a sent number decodes to n / k times itself: the mean over draws is the number itself. Not for |
/// |        | use inside ErrorFeedback, which would then subtract more than the number                         |
/// | linear | messages of one draw may be added                                                                |
/// | again  | decoded numbers encode to the same bytes, unless `unbiased`                                      |
/// | not finite | if any number is not finite, whether selected or not, all numbers sent are NaN               |
/// | cost   | k draws, a pass over n bits and one over the values; the selection does not depend on the values |
/// | errors | OptionError for a ratio below 1; a message of another draw is refused                            |
///
/// Source: Stich et al., Sparsified SGD with memory, arXiv 1809.07599. Draws: Floyd, CACM 30(9), 1987; Philox.
struct RandomK {
  double ratio = 100;
  std::uint64_t seed = 0;
  std::uint32_t draw = 0;
  bool unbiased = false;

  static constexpr CodecId id = CodecId::random_k;
  static constexpr std::string_view name = "random_k";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = true;
  /// True: selection does not depend on the values; if any value is not finite, all sent ones are NaN.
  static constexpr bool sends_any = true;

  /// Returns the number k of entries sent of n: at least 1 if n is at least 1.
  [[nodiscard]] std::int64_t kept(std::int64_t n) const;
  /// Returns the factor by which decode() multiplies each number that was sent: n / k if `unbiased`, else 1.
  [[nodiscard]] float scale(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;

  /// Adds the numbers of a decoded message to `values`: only the k values that were sent change.
  void accumulate(std::span<const std::byte> message, std::span<float> values) const;
  Bytes encode_residual(std::span<float> values, std::span<std::byte> message) const;

  /// Returns the number that stands for the codec's members in a message's head, equal on both ends: a hash of k and
  /// the members.
  [[nodiscard]] std::uint64_t parameter(std::int64_t n) const;
  [[nodiscard]] std::vector<std::uint32_t> select(std::span<const float> values) const;
  [[nodiscard]] Bytes selection_bytes(std::int64_t /*n*/) const { return 0; }
  Bytes write_selection(std::span<const std::uint32_t> /*indices*/, std::int64_t /*n*/,
                        std::span<std::byte> /*to*/) const {
    return 0;
  }
  bool read_selection(std::span<const std::byte> from, std::int64_t n, std::span<std::uint32_t> indices) const;

private:
  void drawn(std::int64_t n, std::span<std::uint32_t> indices) const;
};

static_assert(selecting_codec<RandomK> && accumulating_codec<RandomK>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/random_k.ipp>
#endif
