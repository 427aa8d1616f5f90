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
                                                 const std::filesystem::path& added) {
  detail::BpeFiles files = detail::read_vocabulary(vocabulary);
  detail::read_merges(files, merges);
  if (!added.empty()) detail::read_added_tokens(files, added);
  return BpeTokenizer(std::move(files), false);
}

REEF_INLINE BpeTokenizer BpeTokenizer::read_tiktoken(const std::filesystem::path& ranks) {
  detail::BpeFiles files = detail::read_ranks(ranks);
  const std::string name(end_of_text_name);
  if (files.ids.emplace(name, static_cast<std::int32_t>(files.tokens.size())).second) {
    files.tokens.push_back(name);
  }
  return BpeTokenizer(std::move(files), true);
}

REEF_INLINE std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() / 3);
  detail::BpeVocabulary::Encoder encoder(vocabulary_, text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_piece_end(text, at);
    encoder.append(tokens, text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

REEF_INLINE std::string BpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  return vocabulary_.decode(tokens, "reef::data::BpeTokenizer");
}

REEF_INLINE BpeTokenizer::BpeTokenizer(detail::BpeFiles files, bool whole_pieces)
    : end_of_text_([&]() -> std::optional<std::int32_t> {
        const auto found = files.ids.find(std::string(end_of_text_name));
        if (found == files.ids.end()) return std::nullopt;
        return found->second;
      }()),
      vocabulary_(std::move(files), whole_pieces) {}

}  // namespace data
}  // namespace v0
}  // namespace reef
