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

/// A codec that sends a matrix as a product of two thin ones, by one step of power iteration for each message.
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
/// | wire   | 32 rank (rows + columns) bits, fewer than dense only if that is below 32 n. At most 16 bytes per     |
/// |        | number, whatever the members are                                                                     |
/// | shape  | n = rows * columns; a shorter last row is filled with zeros; if n < columns, one row of n columns is |
/// |        | used. The rank is at most the number of rows and at most that of columns                             |
/// | state  | sender: columns * rank numbers, Q; a column of Q that is all 0, as at first, is drawn by the seed    |
/// | cost   | 4 n rank operations to encode, 2 n rank to decode                                                    |
/// | not finite | NaN and infinity decode to NaN                                                                   |
/// | deterministic | on one machine; products may round differently on another                                     |
/// | errors | OptionError for columns or a rank below 1                                                            |
///
/// Source: Vogels et al., PowerSGD, arXiv 1905.13727, algorithm 1. Deviation: P and Q are of one sender's matrix; the
/// paper averages those of all senders within the step.
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
  /// Returns the number of columns of the matrix into which n numbers are arranged: `columns`, or n if that is less.
  [[nodiscard]] std::int64_t width(std::int64_t n) const { return columns < n ? columns : n; }
  /// Returns the rank of the factors for n numbers: `rank`, or the number of rows or of columns if that is less. Throws
  /// OptionError for columns or a rank below 1.
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
  /// Returns the first factor Q of a message, (width, rank) by column: the codec's memory, or random numbers where a
  /// column of it is all 0.
  [[nodiscard]] std::vector<float> start(std::int64_t width, std::int64_t rank, std::span<const float> state) const;
};

static_assert(codec_with_memory<PowerSgd> && decodes_alone<PowerSgd>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/power_sgd.ipp>
#endif
