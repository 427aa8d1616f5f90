#pragma once

#include <algorithm>
#include <bit>
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

REEF_INLINE std::optional<std::int32_t> BpeTokenizer::find(std::string_view bytes) const {
  for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
    const std::string_view token(text_.data() + begins_[i], begins_[i + 1] - begins_[i]);
    if (token == bytes) return static_cast<std::int32_t>(i);
  }
  return std::nullopt;
}

REEF_INLINE std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() / 3);
  detail::BpeMerger merger(merges_);
  // Where pieces were met before: the last one of each hash.
  std::vector<Met> met(std::clamp<std::size_t>(std::bit_ceil(text.size() / 4 + 1), 1, 1U << 15));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_piece_end(text, at);
    const std::string_view piece = text.substr(at, end - at);
    at = end;
    if (piece.size() == 1) {
      tokens.push_back(bytes_[static_cast<unsigned char>(piece.front())]);
      continue;
    }
    Met& before = met[hash(piece) & (met.size() - 1)];
    const std::size_t begin = tokens.size();
    if (before.piece == piece) {
      tokens.resize(begin + before.count);
      std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(before.begin), before.count,
                  tokens.begin() + static_cast<std::ptrdiff_t>(begin));
    } else {
      append(tokens, piece, merger);
      before = {piece, begin, tokens.size() - begin};
    }
  }
  return tokens;
}

REEF_INLINE std::string BpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary()) {
      throw DecodeError("reef::data::BpeTokenizer::decode: token ", token,
                        " is not in the vocabulary.\n  fix: decode with the tokenizer that the "
                        "model was trained with; this one has tokens 0 to ",
                        vocabulary() - 1, ".");
    }
    const auto i = static_cast<std::size_t>(token);
    text.append(text_, begins_[i], begins_[i + 1] - begins_[i]);
  }
  return text;
}

REEF_INLINE BpeTokenizer::BpeTokenizer(detail::BpeFiles files, bool whole_pieces)
    : merges_(files.merges) {
  for (const std::string& token : files.tokens) {
    begins_.push_back(text_.size());
    text_ += token;
  }
  begins_.push_back(text_.size());
  for (std::size_t b = 0; b < 256; ++b) {
    bytes_[b] = files.ids.at(std::string(1, static_cast<char>(b)));
  }
  const auto found = files.ids.find(std::string(end_of_text_name));
  if (found != files.ids.end()) end_of_text_ = found->second;
  if (whole_pieces) pieces_ = std::move(files.ids);
}

REEF_INLINE void BpeTokenizer::append(std::vector<std::int32_t>& tokens, std::string_view piece,
                                      detail::BpeMerger& merger) const {
  if (!pieces_.empty()) {
    const auto whole = pieces_.find(std::string(piece));
    if (whole != pieces_.end()) {
      tokens.push_back(whole->second);
      return;
    }
  }
  const std::size_t begin = tokens.size();
  for (const char c : piece) tokens.push_back(bytes_[static_cast<unsigned char>(c)]);
  merger.merge(tokens, begin);
}

REEF_INLINE std::size_t BpeTokenizer::hash(std::string_view piece) {
  std::uint64_t h = piece.size();
  for (const char c : piece) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return static_cast<std::size_t>(h ^ h >> 15);
}

}  // namespace data
}  // namespace v0
}  // namespace reef
