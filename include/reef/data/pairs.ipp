#pragma once

#include <algorithm>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/data/detail/language_inputs.hpp>
#include <reef/data/json_lines.hpp>
#include <reef/data/detail/pair_targets.hpp>
#include <reef/data/pairs.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE std::vector<TextPair> read_text_pairs(const std::filesystem::path& file) {
  std::vector<TextPair> pairs;
  for_each_json_line(file, [&](const io::Json& json, const std::string& source) {
    TextPair pair{io::require<std::string>(json, "prompt", source),
                  io::require<std::string>(json, "completion", source), source};
    if (pair.completion.empty()) {
      throw DecodeError("reef::data: ", source,
                        ": the completion is empty.\n  why: the loss is of completions alone.\n",
                        "  fix: leave the line out.");
    }
    pairs.push_back(std::move(pair));
  });
  if (pairs.empty()) {
    throw DecodeError("reef::data: ", file.string(), " has no pairs.\n",
                      "  fix: lines such as {\"prompt\": \"2 + 2 =\", \"completion\": \" 4\"}.");
  }
  return pairs;
}

REEF_INLINE PairSampler::PairSampler(std::span<const TokenPair> pairs, std::int64_t context,
                                     std::uint64_t seed)
    : pairs_(pairs), context_(context), seed_(seed) {
  if (pairs.empty() || context < 1) {
    throw OptionError("reef::data::PairSampler: T = ", context, " and ", pairs.size(),
                      " pairs make no sample.\n  fix: T >= 1 and at least 1 pair.");
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].prompt < pairs[i].tokens.size() &&
        pairs[i].prompt <= static_cast<std::size_t>(context) && pairs[i].tokens.size() > 1) {
      detail::require_skipped(pairs[i], i);
      continue;
    }
    throw OptionError(
        "reef::data::PairSampler: pair ", i, " has a prompt of ", pairs[i].prompt, " of its ",
        pairs[i].tokens.size(), " tokens, and T is ", context,
        ".\n  why: no target is of its completion.\n  fix: a larger T, or leave the pair out.");
  }
}

REEF_INLINE std::int64_t PairSampler::fill(std::uint64_t first, std::span<const AnyView> inputs) const {
  return detail::fill_rows(inputs, context_, "reef::data::PairSampler::fill",
                           detail::rows_of_epochs(first, pairs_.size(), seed_),
                           [&](std::size_t row, std::int32_t* tokens, std::int32_t* targets) {
                             return write(row, tokens, targets);
                           });
}

REEF_INLINE std::int64_t PairSampler::fill_in_order(std::uint64_t first, std::span<const AnyView> inputs) const {
  return detail::fill_rows(inputs, context_, "reef::data::PairSampler::fill_in_order",
                           detail::rows_in_order(first),
                           [&](std::size_t row, std::int32_t* tokens, std::int32_t* targets) {
                             return write(row, tokens, targets);
                           });
}

REEF_INLINE std::int64_t PairSampler::write(std::size_t pair, std::int32_t* tokens,
                                            std::int32_t* targets) const {
  const auto length = static_cast<std::size_t>(context_);
  std::fill(tokens, tokens + length, 0);
  std::fill(targets, targets + length, -1);
  if (pair >= pairs_.size()) return 0;
  const TokenPair& from = pairs_[pair];
  const std::size_t present = (std::min)(length, from.tokens.size());
  std::copy_n(from.tokens.begin(), present, tokens);
  return detail::write_targets(from, (std::min)(length + 1, from.tokens.size()), targets);
}

}  // namespace data
}  // namespace v0
}  // namespace reef
