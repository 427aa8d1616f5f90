#pragma once

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/data/detail/language_inputs.hpp>
#include <reef/data/detail/pair_targets.hpp>
#include <reef/data/packed_pairs.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

/// Returns the positions that a pair takes in a row of T.
inline std::size_t positions_of(const TokenPair& pair, std::int64_t context) {
  return (std::min)(pair.tokens.size() - 1, static_cast<std::size_t>(context));
}

}  // namespace detail

REEF_INLINE std::vector<std::vector<std::size_t>> packed_rows(std::span<const TokenPair> pairs, std::int64_t context) {
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t pair) { return detail::positions_of(pairs[pair], context); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  std::vector<std::vector<std::size_t>> rows;
  std::set<std::pair<std::size_t, std::size_t>> room;  // positions left, row
  for (const std::size_t pair : order) {
    auto found = room.lower_bound({length(pair), 0});
    if (found == room.end()) {
      found = room.emplace(static_cast<std::size_t>(context), rows.size()).first;
      rows.emplace_back();
    }
    const auto [left, row] = *found;
    room.erase(found);
    room.emplace(left - length(pair), row);
    rows[row].push_back(pair);
  }
  for (std::vector<std::size_t>& row : rows) std::sort(row.begin(), row.end());
  return rows;
}

REEF_INLINE PackedPairSampler::PackedPairSampler(std::span<const TokenPair> pairs, std::int64_t context,
                                                 std::uint64_t seed)
    : pairs_(pairs), context_(context), seed_(seed) {
  static_cast<void>(PairSampler(pairs, context, seed));  // which refuses pairs that make no sample
  rows_ = packed_rows(pairs, context);
}

REEF_INLINE std::int64_t PackedPairSampler::fill(std::uint64_t first, std::span<const AnyView> inputs) const {
  return detail::fill_rows(inputs, context_, "reef::data::PackedPairSampler::fill",
                           detail::rows_of_epochs(first, rows_.size(), seed_),
                           [&](std::size_t row, std::int32_t* tokens, std::int32_t* targets) {
                             return write(row, tokens, targets);
                           });
}

REEF_INLINE std::int64_t PackedPairSampler::fill_in_order(std::uint64_t first, std::span<const AnyView> inputs) const {
  return detail::fill_rows(inputs, context_, "reef::data::PackedPairSampler::fill_in_order",
                           detail::rows_in_order(first),
                           [&](std::size_t row, std::int32_t* tokens, std::int32_t* targets) {
                             return write(row, tokens, targets);
                           });
}

REEF_INLINE std::int64_t PackedPairSampler::write(std::size_t row, std::int32_t* tokens, std::int32_t* targets) const {
  const auto T_ = static_cast<std::size_t>(context_);
  std::fill(tokens, tokens + T_, 0);
  std::fill(targets, targets + T_, -1);
  if (row >= rows_.size()) return 0;
  std::size_t at = 0;
  std::int64_t counted = 0;
  for (const std::size_t index : rows_[row]) {
    const TokenPair& pair = pairs_[index];
    const std::size_t length = detail::positions_of(pair, context_);
    std::copy_n(pair.tokens.begin(), length, tokens + at);
    if (at > 0) tokens[at] = ~tokens[at];
    counted += detail::write_targets(pair, length + 1, targets + at);
    at += length;
  }
  if (at < T_) tokens[at] = ~tokens[at];  // padding is a sample of its own
  return counted;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
