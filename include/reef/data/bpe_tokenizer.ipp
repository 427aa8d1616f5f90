#pragma once

#include <cstddef>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/gpt2_pattern.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE BpeTokenizer BpeTokenizer::read_gpt2(const std::filesystem::path& vocabulary,
                                                 const std::filesystem::path& merges,
                                                 const std::filesystem::path& added, BpeTokenizerOptions options) {
  detail::BpeFiles files = detail::read_vocabulary(vocabulary);
  detail::read_merges(files, merges);
  const std::size_t own = files.tokens.size();
  if (!added.empty()) detail::read_added_tokens(files, added);
  return BpeTokenizer(std::move(files), false, own, options);
}

REEF_INLINE BpeTokenizer BpeTokenizer::read_tiktoken(const std::filesystem::path& ranks, BpeTokenizerOptions options) {
  detail::BpeFiles files = detail::read_ranks(ranks);
  const std::string name(end_of_text_name);
  if (files.ids.emplace(name, static_cast<std::int32_t>(files.tokens.size())).second) {
    files.tokens.push_back(name);
  }
  const std::size_t own = files.tokens.size();
  return BpeTokenizer(std::move(files), true, own, options);
}

REEF_INLINE std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() / 3);
  detail::BpeVocabulary::Encoder encoder(vocabulary_, text.size());
  const auto encode_gap = [&](std::string_view gap) {
    for (std::size_t at = 0; at < gap.size();) {
      const std::size_t end = gpt2_piece_end(gap, at);
      encoder.append(tokens, gap.substr(at, end - at));
      at = end;
    }
  };
  found_.for_each_part(text, encode_gap, [&](std::int32_t token) { tokens.push_back(token); });
  return tokens;
}

REEF_INLINE std::string BpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  return vocabulary_.decode(tokens, "reef::data::BpeTokenizer");
}

REEF_INLINE BpeTokenizer::BpeTokenizer(detail::BpeFiles files, bool whole_pieces, std::size_t added,
                                       BpeTokenizerOptions options)
    : end_of_text_([&]() -> std::optional<std::int32_t> {
        const auto found = files.ids.find(std::string(end_of_text_name));
        if (found == files.ids.end()) return std::nullopt;
        return found->second;
      }()),
      found_([&] {
        std::vector<AddedToken> tokens;
        if (!options.finds_added) return AddedTokenTable();
        if (end_of_text_) tokens.push_back({.content = std::string(end_of_text_name), .id = *end_of_text_});
        for (std::size_t id = added; id < files.tokens.size(); ++id) {
          if (static_cast<std::int32_t>(id) != end_of_text_)
            tokens.push_back({.content = files.tokens[id], .id = static_cast<std::int32_t>(id)});
        }
        return AddedTokenTable(tokens);
      }()),
      vocabulary_(std::move(files), whole_pieces) {}

}  // namespace data
}  // namespace v0
}  // namespace reef
