#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/core/tensor_view.hpp>
#include <reef/data/pairs.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// Returns which pairs lie together in a row of T positions: each pair in one row, the longest first, each where it leaves the
/// least room, and within a row in ascending order.
///
/// A pair of n tokens takes n - 1 positions, at most T: its last token is a target alone.
std::vector<std::vector<std::size_t>> packed_rows(std::span<const TokenPair> pairs, std::int64_t context);

/// A sampler of rows in which several pairs lie behind one another, for a model of nn::with_packing: every epoch visits each
/// row, so each pair, once, in an order of its own. Only tokens of completions are targets.
///
///     tokens[b]: pair after pair without its last token, the first of each but the row's first as ~token; then ~0, 0, 0, ...
///     targets[b, t] = the next token of t's pair if that is in the completion, else -1
///
/// | state  | none: with the same seed, an index always gives the same row                            |
/// | shape  | tokens, targets: (B, T) int32; of a pair with more than T + 1 tokens, the first T + 1   |
/// | errors | those of PairSampler                                                                   |
///
/// Rows are the same in all epochs. A model without packing refuses them: a negative token is of no vocabulary.
///
/// \code
/// const std::vector<data::TokenPair> pairs{{.tokens = {7, 7, 3, 4}, .prompt = 2}, {.tokens = {5, 6}, .prompt = 1}};
/// const data::PackedPairSampler sampler(pairs, 256, 1);  // T = 256, seed 1
/// const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
///   return static_cast<double>(sampler.fill(first, inputs));  // the weight: targets that count
/// };
/// \endcode
class PackedPairSampler {
public:
  /// Constructs a sampler that refers to `pairs`, which must outlive it.
  PackedPairSampler(std::span<const TokenPair> pairs, std::int64_t context, std::uint64_t seed);

  /// Returns the number of rows that all pairs take.
  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }

  /// Writes rows [first, first + B); returns how many targets are not -1: the weight of this batch's mean loss.
  std::int64_t fill(std::uint64_t first, std::span<const AnyView> inputs) const;

  /// Writes rows [first, first + B) in their own order, for evaluation; rows beyond the last are padding.
  std::int64_t fill_in_order(std::uint64_t first, std::span<const AnyView> inputs) const;

private:
  /// Writes a row; returns the number of its targets that are not -1.
  std::int64_t write(std::size_t row, std::int32_t* tokens, std::int32_t* targets) const;

  std::span<const TokenPair> pairs_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::vector<std::vector<std::size_t>> rows_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/packed_pairs.ipp>
#endif
