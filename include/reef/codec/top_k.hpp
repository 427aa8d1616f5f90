#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/codec/threads.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/selecting.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// The form in which ascending indices are sent: the shortest for the indices at hand.
///
/// | all     | no indices: every number is sent                                                                |
/// | bitmap  | a bit for each number                                                                            |
/// | blocked | in blocks of 65536 numbers: how many there are, 32 bits; then of each its low 16 bits             |
/// | rice    | gaps: the low `parameter` bits, and the rest as so many ones and a zero                           |
/// | in_chunks | of chunks that keep as many each: the place in it, in as few bits as that takes. ChunkTopK alone |
/// | all_but | the indices that are not sent, 32 bits each: no more than the numbers themselves would take       |
enum class IndexForm : std::uint8_t { all, bitmap, blocked, rice, in_chunks, all_but };

/// The form of indices, and their size in it.
struct IndexCoding {
  IndexForm form = IndexForm::all;
  std::uint8_t parameter = 0;  ///< the low bits of a gap, in the form rice
  Bytes bytes = 0;
};

/// Returns the coding of ascending indices of n numbers in a given form. O(indices).
IndexCoding coding_in(std::span<const std::uint32_t> indices, std::int64_t n, IndexForm form,
                      std::uint8_t parameter = 0);

/// Returns the shortest coding of ascending indices of n numbers. O(indices).
IndexCoding least_coding(std::span<const std::uint32_t> indices, std::int64_t n);

/// Writes the indices in this coding, coding.bytes long.
void write_indices(std::span<const std::uint32_t> indices, std::int64_t n, const IndexCoding& coding,
                   std::span<std::byte> to);

/// Reads indices.size() indices; false unless they ascend below n, and take all of `from`, with zeros behind the last bit.
bool read_indices(std::span<const std::byte> from, std::int64_t n, const IndexCoding& coding,
                  std::span<std::uint32_t> indices);

/// Writes the form and its parameter, a byte each, then the indices in it. Returns the bytes of all.
Bytes write_coded(std::span<const std::uint32_t> indices, std::int64_t n, const IndexCoding& coding,
                  std::span<std::byte> to);
/// Reads the two bytes that write_coded begins with: the coding of the indices from there to the end, not yet checked.
IndexCoding coding_said(std::span<const std::byte> from);

/// Returns the indices of the k numbers of largest magnitude, ascending; of equal magnitudes the lower index. A NaN is
/// larger than any number.
std::vector<std::uint32_t> largest_indices(std::span<const float> values, std::int64_t k, const Threads& threads = {});

/// Sends the numbers of largest magnitude, one in `ratio`; the others decode to 0.
///
///     payload   values, fp32, by index | form of the indices, 1 byte | its parameter, 1 | indices
///
/// \code
/// // given: std::span<const float> values
/// const codec::TopK format{.ratio = 100};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// message.resize(format.encode(values, message));
/// \endcode
///
/// | wire    | k = n / ratio, rounded up: 4 bytes each, and the indices: at one in 100 some 8.1 bits each, the       |
/// |         | entropy's bound being 8.08                                                                          |
/// | at most | encoded_bytes(n), which never grows with the ratio: at 1 all numbers, and 34 bytes                   |
/// | ties    | to the lower index; NaN is larger than any number, so that it is seen                               |
/// | again   | decoded numbers encode to the same bytes                                                            |
/// | cost    | one pass, and some more than k numbers of it, where a sample tells what to keep; else three         |
/// | errors  | OptionError for a ratio below 1                                                                     |
///
/// Source: Aji and Heafield, arXiv 1704.05021; FusionLLM, arXiv 2410.12707, section 5. Gaps: Rice 1979.
struct TopK {
  double ratio = 100;

  static constexpr CodecId id = CodecId::top_k;
  static constexpr std::string_view name = "top_k";
  static constexpr bool exact = false;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  /// k, the number of entries kept of n: at least 1 if n is.
  [[nodiscard]] std::int64_t kept(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message, const Threads& threads = {}) const;
  void decode(std::span<const std::byte> message, std::span<float> values, const Threads& threads = {}) const;

  /// Adds the decoded message to `values` (concept.hpp): only the k numbers are touched.
  void accumulate(std::span<const std::byte> message, std::span<float> values) const;
  Bytes encode_residual(std::span<float> values, std::span<std::byte> message, const Threads& threads = {}) const;

  /// The parameter in a message's head, k (selecting.hpp): both ends select by the same rule.
  [[nodiscard]] std::uint64_t parameter(std::int64_t n) const { return static_cast<std::uint64_t>(kept(n)); }
  [[nodiscard]] std::vector<std::uint32_t> select(std::span<const float> values, const Threads& threads = {}) const;
  [[nodiscard]] Bytes selection_bytes(std::int64_t n) const;
  Bytes write_selection(std::span<const std::uint32_t> indices, std::int64_t n, std::span<std::byte> to) const;
  bool read_selection(std::span<const std::byte> from, std::int64_t n, std::span<std::uint32_t> indices) const;
};

static_assert(selecting_codec<TopK> && accumulating_codec<TopK>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/top_k.ipp>
#endif
