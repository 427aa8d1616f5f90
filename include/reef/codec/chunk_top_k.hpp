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

/// A codec that sends the `keep` numbers of largest magnitude of each chunk of `chunk` numbers; the other numbers
/// decode to 0. Each part of a tensor thus sends its share, and a chunk stays in a cache while its numbers are
/// selected.
///
///     payload   values, fp32, by index | form of the indices, 1 byte | its parameter, 1 | indices
///
/// \code
/// // given: std::span<const float> values
/// const codec::ChunkTopK format{.chunk = 4096, .keep = 64};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// message.resize(format.encode(values, message));
/// \endcode
///
/// | kept   | a shorter last chunk keeps the same share, rounded up, so at least one number                          |
/// | wire   | 4 bytes per number kept, and its index, as the gap to the index before it in its chunk: for 64 in 4096 |
/// |        | about 7.5 bits (the entropy is 7.36); where a chunk keeps one or two, 12 bits per index are fewer      |
/// | ties   | to the lower index; NaN counts as larger than any number, so that it is sent                           |
/// | again  | decoded numbers encode to the same bytes                                                               |
/// | cost   | two passes over the numbers, and a selection within each chunk                                         |
/// | errors | OptionError unless 1 <= keep <= chunk                                                                  |
///
/// Source: DeMo, arXiv 2411.19870; SparseLoCo, arXiv 2508.15706. Deviation: indices are sent as gaps; theirs take 12
/// bits.
struct ChunkTopK {
  std::int64_t chunk = 4096;
  std::int64_t keep = 64;

  static constexpr CodecId id = CodecId::chunk_top_k;
  static constexpr std::string_view name = "chunk_top_k";
  static constexpr bool exact = false;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  [[nodiscard]] std::int64_t kept(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;

  /// Adds the numbers of a decoded message to `values`: only the values at the indices sent change.
  void accumulate(std::span<const std::byte> message, std::span<float> values) const;
  Bytes encode_residual(std::span<float> values, std::span<std::byte> message) const;

  /// Returns the number that stands for the codec's members in a message's head, equal on both ends: `chunk` and `keep`
  /// in one number.
  [[nodiscard]] std::uint64_t parameter(std::int64_t n) const;
  [[nodiscard]] std::vector<std::uint32_t> select(std::span<const float> values) const;
  [[nodiscard]] Bytes selection_bytes(std::int64_t n) const;
  Bytes write_selection(std::span<const std::uint32_t> indices, std::int64_t n, std::span<std::byte> to) const;
  bool read_selection(std::span<const std::byte> from, std::int64_t n, std::span<std::uint32_t> indices) const;
};

static_assert(selecting_codec<ChunkTopK> && accumulating_codec<ChunkTopK>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/chunk_top_k.ipp>
#endif
