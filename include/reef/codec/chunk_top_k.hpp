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

/// Sends the numbers of largest magnitude of each chunk, `keep` of `chunk`; the others decode to 0. So each part of a tensor
/// has its share, and a chunk is selected from within a cache.
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
/// | kept   | a last chunk that is shorter keeps its share, rounded up, so that it keeps one                          |
/// | wire   | 4 bytes each, and the indices: of 64 in 4096 some 7.5 bits each, the entropy's bound being 7.36, as    |
/// |        | gaps that begin anew at each chunk; where a chunk keeps one or two, 12 bits each take less             |
/// | ties   | to the lower index; NaN is larger than any number, so that it is seen                                   |
/// | again  | decoded numbers encode to the same bytes                                                                |
/// | cost   | two passes, and the selection of each chunk                                                             |
/// | errors | OptionError unless 1 <= keep <= chunk                                                                   |
///
/// Source: DeMo, arXiv 2411.19870; SparseLoCo, arXiv 2508.15706. Deviation: indices as gaps where theirs have 12 bits each.
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

  /// Adds the decoded message to `values` (concept.hpp): only the numbers that are kept are touched.
  void accumulate(std::span<const std::byte> message, std::span<float> values) const;
  Bytes encode_residual(std::span<float> values, std::span<std::byte> message) const;

  /// The parameter in a message's head (selecting.hpp): both ends select by the same rule.
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
