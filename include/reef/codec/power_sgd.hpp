#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/codec/message.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// Sends a matrix as a product of two thin ones, by one step of power iteration for each message.
///
///     P = orthonormal(M Q)      M: (rows, columns), Q: (columns, rank), the memory
///     Q = M^T P                 the memory after it
///     decoded = P Q^T           the projection of M onto P: what is left is orthogonal to it
///
///     payload   P, fp32, by column | Q, fp32, by column
///
/// \code
/// #include <reef/codec/error_feedback.hpp>
/// // given: std::int64_t columns, std::span<const float> matrix
/// const codec::ErrorFeedback<codec::PowerSgd> format{{.columns = columns, .rank = 4}};
/// const auto n = static_cast<std::int64_t>(matrix.size());
/// std::vector<float> memory(static_cast<std::size_t>(format.state(n)));
/// std::vector<std::byte> message(format.encoded_bytes(n));
/// format.encode(matrix, memory, memory, message);
/// \endcode
///
/// | wire   | 32 rank (rows + columns) bits; what is less dense than that goes another way. At most 16 bytes a number, |
/// |        | whatever the members are                                                                               |
/// | shape  | n = rows * columns; a last row that is shorter is filled with zeros, and of fewer numbers than there are |
/// |        | columns the one row has as many as they are. rank: at most rows, or columns                            |
/// | state  | sender: columns * rank numbers; a column of them that is all 0, as at first, is drawn by the seed      |
/// | cost   | 4 n rank operations, and as many of the decoder's half                                                 |
/// | not finite | NaN and infinity decode to NaN                                                                     |
/// | deterministic | on one machine; products may round differently on another                                       |
/// | errors | OptionError for columns or a rank below 1                                                              |
///
/// Source: Vogels et al., PowerSGD, arXiv 1905.13727, algorithm 1. Deviation: P and Q are of one sender; there, those of all
/// are averaged within the step.
struct PowerSgd {
  std::int64_t columns = 1;
  std::int64_t rank = 4;
  std::uint64_t seed = 0;

  static constexpr CodecId id = CodecId::power_sgd;
  static constexpr std::string_view name = "power_sgd";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  [[nodiscard]] std::int64_t rows(std::int64_t n) const { return (n + columns - 1) / columns; }
  /// The number of columns that n numbers fill.
  [[nodiscard]] std::int64_t width(std::int64_t n) const { return columns < n ? columns : n; }
  /// The rank for n numbers: at most the rows and at most the columns. Throws OptionError for columns or a rank below 1.
  [[nodiscard]] std::int64_t rank_of(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  [[nodiscard]] std::int64_t state(std::int64_t n) const { return rank_of(n) * width(n); }
  [[nodiscard]] std::int64_t received_state(std::int64_t /*n*/) const { return 0; }

  Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
               std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;
  void decode(std::span<const std::byte> message, std::span<const float> /*state*/, std::span<float> /*next*/,
              std::span<float> values) const {
    decode(message, values);
  }

private:
  [[nodiscard]] MessageHead head(std::int64_t n) const;
  /// Returns the first Q, (width, rank) by column: the memory, or drawn numbers where a column of it is all 0.
  [[nodiscard]] std::vector<float> start(std::int64_t width, std::int64_t rank, std::span<const float> state) const;
};

static_assert(codec_with_memory<PowerSgd> && decodes_alone<PowerSgd>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/power_sgd.ipp>
#endif
