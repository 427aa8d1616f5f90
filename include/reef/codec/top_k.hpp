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

/// The form in which ascending indices of selected numbers are sent; least_coding() chooses the shortest.
///
/// | all     | no indices: every number is sent                                                                 |
/// | bitmap  | a bit for each number                                                                            |
/// | blocked | for each block of 65536 numbers: the count of its indices, 32 bits; then the low 16 bits of each |
/// | rice    | gaps between indices: the low `parameter` bits, then the rest in unary, as ones and a zero       |
/// | in_chunks | for ChunkTopK alone: the place of each index in its chunk, in the fewest bits for a chunk      |
/// | all_but | the indices that are not sent, 32 bits each: no more bytes than their numbers would take         |
enum class IndexForm : std::uint8_t { all, bitmap, blocked, rice, in_chunks, all_but };

/// The form in which indices of selected numbers are written, and their size in bytes.
struct IndexCoding {
  IndexForm form = IndexForm::all;
  std::uint8_t parameter = 0;  ///< number of low bits of an index gap that are written as they are, in the form rice
  Bytes bytes = 0;
};

/// Returns the coding of ascending indices, each below n, in a given form. O(indices).
IndexCoding coding_in(std::span<const std::uint32_t> indices, std::int64_t n, IndexForm form,
                      std::uint8_t parameter = 0);

/// Returns the shortest coding of ascending indices, each below n. O(indices).
IndexCoding least_coding(std::span<const std::uint32_t> indices, std::int64_t n);

/// Writes the indices of selected numbers in the given coding to `to`, which has coding.bytes bytes.
void write_indices(std::span<const std::uint32_t> indices, std::int64_t n, const IndexCoding& coding,
                   std::span<std::byte> to);

/// Reads indices.size() indices of selected numbers. Returns false unless they ascend below n and fill `from`, with
/// zeros behind the last bit.
bool read_indices(std::span<const std::byte> from, std::int64_t n, const IndexCoding& coding,
                  std::span<std::uint32_t> indices);

/// Writes the coding's form and parameter, a byte each, then the indices of selected numbers in that form. Returns the
/// bytes written.
Bytes write_coded(std::span<const std::uint32_t> indices, std::int64_t n, const IndexCoding& coding,
                  std::span<std::byte> to);
/// Reads the two bytes that write_coded writes first. Returns the form and parameter of the indices in the rest of
/// `from`, unchecked.
IndexCoding coding_said(std::span<const std::byte> from);

/// Returns the indices of the k numbers of largest magnitude, ascending; of equal magnitudes, those of lower index. A
/// NaN counts as larger than any number.
std::vector<std::uint32_t> largest_indices(std::span<const float> values, std::int64_t k, const Threads& threads = {});

/// A codec that sends the numbers of largest magnitude, one in `ratio`; the others decode to 0.
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
/// | wire    | 4 bytes for each of k = n / ratio numbers, rounded up, and its index: about 8.1 bits at a ratio of |
/// |         | 100 (the entropy is 8.08)                                                                          |
/// | at most | encoded_bytes(n), which never grows with the ratio: at a ratio of 1, all numbers and 34 bytes      |
/// | ties    | to the lower index; NaN counts as larger than any number, so that it is sent                       |
/// | again   | decoded numbers encode to the same bytes                                                           |
/// | cost    | one pass, and one over the few more than k numbers above a sampled threshold; three if that fails  |
/// | errors  | OptionError for a ratio below 1                                                                    |
///
/// Source: Aji and Heafield, arXiv 1704.05021; FusionLLM, arXiv 2410.12707, section 5. Gaps: Rice 1979.
struct TopK {
  double ratio = 100;

  static constexpr CodecId id = CodecId::top_k;
  static constexpr std::string_view name = "top_k";
  static constexpr bool exact = false;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  /// Returns the number k of entries sent of n: at least 1 if n is at least 1.
  [[nodiscard]] std::int64_t kept(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message, const Threads& threads = {}) const;
  void decode(std::span<const std::byte> message, std::span<float> values, const Threads& threads = {}) const;

  /// Adds the numbers of a decoded message to `values`: only the k values that were sent change.
  void accumulate(std::span<const std::byte> message, std::span<float> values) const;
  Bytes encode_residual(std::span<float> values, std::span<std::byte> message, const Threads& threads = {}) const;

  /// Returns the number that stands for the codec's members in a message's head, equal on both ends: k.
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
