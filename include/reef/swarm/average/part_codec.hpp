#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/codec/chosen.hpp>
#include <reef/codec/concept.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/core/message.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The codecs of a job: one encodes the parts of contributions, the other the results, which reducers alone encode, so
/// that all peers decode the same bytes.
///
///     part   = contributions.encode(gradient sum)          by each contributor
///     result = results.encode(decode(part of the first) + decode(part of the second) + ...)       by the reducer
///
/// | memory     | a codec of contributions may have a memory at the sender (ErrorFeedback); one of results has none, |
/// |            | as a reducer changes with the members. A codec with a memory at the receiver is refused           |
/// | not finite | a piece with a number that is not finite becomes a message that decode refuses, whatever the codec |
/// |            | does with such numbers; in fp32 they stay as they are                                             |
/// | errors     | DecodeError for a message that is not of the codec and of as many numbers; then none is written    |
///
/// \code
/// #include <reef/codec/blockwise8.hpp>
/// #include <reef/codec/error_feedback.hpp>
/// const swarm::PartCodec codecs(codec::ErrorFeedback<codec::Blockwise8>{}, codec::Blockwise8{});
/// const swarm::PartCodec named = swarm::PartCodec::of("ef+blockwise8:4096,blockwise8:4096");
/// \endcode
class PartCodec {
public:
  /// Constructs the codecs of numbers as they are, in fp32.
  PartCodec() = default;
  /// Constructs the codecs from any of contributions, and one without memory of results. Throws OptionError for a
  /// memory at the receiver.
  template <codec::any_codec C, codec::codec R>
  PartCodec(C contributions, R results)
      : PartCodec(codec::Chosen(std::move(contributions)), codec::Chosen(std::move(results)), {}) {}

  /// Returns the codecs of a text, as Genesis::codec has it.
  ///
  ///     fp32 | CODEC | CODEC,CODEC         contributions and results, or contributions, then results
  ///
  /// | CODEC | a text of codec::Chosen, or fp32: numbers as they are                                               |
  /// | one   | a CODEC by itself is of results as well, unless it has a memory or leaves numbers out: then these are |
  /// |       | fp32                                                                                                |
  /// | empty | fp32                                                                                                |
  ///
  /// Throws OptionError for any other text, for a codec of results with a memory, for one with a memory at the receiver
  /// (ef21), and for random-k, which would select the same numbers in each round.
  static PartCodec of(std::string_view text);

  [[nodiscard]] std::string text() const;
  /// Returns true if both are fp32.
  [[nodiscard]] bool is_fp32() const { return !contributions_ && !results_; }
  /// Returns the count of numbers in the sender's memory for a part of n numbers.
  [[nodiscard]] std::int64_t state(std::int64_t n) const { return contributions_ ? contributions_.state(n) : 0; }

  /// Encodes a part. `state`, `next`: state(n) numbers, the memory before and after it, which may be the same.
  [[nodiscard]] Bulk encode_part(std::span<const float> numbers, std::span<const float> state,
                                 std::span<float> next) const;
  [[nodiscard]] Bulk encode_result(std::span<const float> numbers) const;
  void decode_part(const Bulk& part, std::span<float> numbers) const;
  void decode_result(const Bulk& result, std::span<float> numbers) const;

private:
  PartCodec(codec::Chosen contributions, codec::Chosen results, std::string_view text);

  codec::Chosen contributions_{};
  codec::Chosen results_{};
};

/// Returns the functions of a job that sums vectors of `parameters` numbers in pieces of `piece` numbers, of which the
/// last may be shorter. With PartCodec{}: dense_functions.
///
/// | fold    | decodes parts, adds them in fp32 in ascending order of contributors, and encodes the sum once   |
/// | accepts | a part that decodes to numbers which are all finite                                             |
/// | judge   | as that of dense_functions, of what the results decode to                                       |
/// | cost    | at most two pieces of fp32 during a call                                                        |
///
/// \code
/// const auto functions = swarm::part_functions(swarm::PartCodec::of("bf16"), 1'000'000, 262'144);
/// \endcode
core::RoundFunctions part_functions(const PartCodec& codec, std::int64_t parameters, std::int64_t piece);

/// Writes what the results of all pieces decode to. Throws DecodeError for other results than those of the job, and
/// then `numbers` is unspecified.
void read_results(const PartCodec& codec, std::span<const Bulk> results, std::int64_t piece, std::span<float> numbers);

/// The contributions of one peer, encoded, with the memory of a codec that has one.
///
/// | memory | advances by advance() alone, so that what nobody has added is not counted as sent |
/// | cost   | twice the memory of the codec                                                     |
///
/// \code
/// // given: std::span<const float> gradient, bool committed
/// swarm::ContributionEncoder encoder(swarm::PartCodec::of("ef+two-bit"), 1'000'000, 262'144);
/// const std::vector<swarm::Bulk> parts = encoder.encode(gradient);
/// if (committed) encoder.advance();
/// \endcode
class ContributionEncoder {
public:
  ContributionEncoder(PartCodec codec, std::int64_t parameters, std::int64_t piece);

  /// Returns the parts of a contribution of `parameters` numbers, by piece.
  [[nodiscard]] std::vector<Bulk> encode(std::span<const float> numbers);
  /// Makes the memory after the last encode() the one before the next. Called twice for one encode(), the second
  /// changes nothing.
  void advance();

  [[nodiscard]] bool has_memory() const { return !state_.empty(); }

private:
  PartCodec codec_;
  std::int64_t piece_;
  std::vector<float> state_;
  std::vector<float> next_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/part_codec.ipp>
#endif
