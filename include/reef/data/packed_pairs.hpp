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

/// Returns the assignment of pairs (prompt and completion) to rows of `context` positions, as indices into `pairs`:
/// each pair is in one row, the longest is placed first, each where it leaves the least room, and the pairs of a row
/// are in ascending order.
///
/// A pair of n tokens takes n - 1 positions, at most `context`, since its last token is only a target.
std::vector<std::vector<std::size_t>> packed_rows(std::span<const TokenPair> pairs, std::int64_t context);

/// A sampler of rows that contain several pairs (prompt and completion), one after another, for a model of
/// nn::with_packing: every epoch visits each row, and so each pair, once, in an order of its own. Only tokens of
/// completions are targets.
///
///     tokens[b]: pair after pair without its last token, the first token of each but the row's first as ~token;
///                then ~0, 0, 0, ...
///     targets[b, t] = the next token of t's pair if that is in the completion, else -1
///
/// | state  | none: with the same seed, an index always gives the same row                                  |
/// | shape  | tokens, targets: (B, T) int32, B rows of T tokens; of a pair with more than T + 1 tokens, the |
/// |        | first T + 1                                                                                   |
/// | errors | those of PairSampler                                                                          |
///
/// Rows are the same in all epochs. A model without packing refuses such a row: its vocabulary has no negative token.
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
  /// Constructs a sampler that refers to `pairs`, which must outlive this object.
  PackedPairSampler(std::span<const TokenPair> pairs, std::int64_t context, std::uint64_t seed);

  /// Returns the number of training rows into which all pairs (prompt and completion) are packed.
  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }

  /// Writes consecutive rows of packed pairs, in the order of epochs, from row number `first` on, as many as the inputs
  /// hold. Returns the number of targets that are not -1: the weight of this batch's mean loss.
  std::int64_t fill(std::uint64_t first, std::span<const AnyView> inputs) const;

  /// Writes rows of packed pairs from `first` on in the order of packed_rows, for evaluation; behind the last row,
  /// padding. Returns the number of targets that are not -1.
  std::int64_t fill_in_order(std::uint64_t first, std::span<const AnyView> inputs) const;

private:
  /// Writes one row of packed pairs; returns the number of its targets that are not -1.
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
