#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/data/detail/bpe_vocabulary.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

REEF_INLINE BpeVocabulary::BpeVocabulary(BpeFiles files, bool whole_pieces)
    : merges_(files.merges) {
  for (const std::string& token : files.tokens) {
    begins_.push_back(text_.size());
    text_ += token;
  }
  begins_.push_back(text_.size());
  for (std::size_t b = 0; b < 256; ++b) {
    bytes_[b] = files.ids.at(std::string(1, static_cast<char>(b)));
  }
  if (whole_pieces) pieces_ = std::move(files.ids);
}

REEF_INLINE std::optional<std::int32_t> BpeVocabulary::find(std::string_view bytes) const {
  for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
    const std::string_view token(text_.data() + begins_[i], begins_[i + 1] - begins_[i]);
    if (token == bytes) return static_cast<std::int32_t>(i);
  }
  return std::nullopt;
}

REEF_INLINE std::string BpeVocabulary::decode(std::span<const std::int32_t> tokens,
                                              std::string_view who) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= size()) {
      throw DecodeError(who, "::decode: token ", token,
                        " is not in the vocabulary.\n  fix: decode with the tokenizer that the "
                        "model was trained with; this one has tokens 0 to ",
                        size() - 1, ".");
    }
    const auto i = static_cast<std::size_t>(token);
    text.append(text_, begins_[i], begins_[i + 1] - begins_[i]);
  }
  return text;
}

REEF_INLINE BpeVocabulary::Encoder::Encoder(const BpeVocabulary& vocabulary, std::size_t bytes)
    : vocabulary_(&vocabulary),
      merger_(vocabulary.merges_),
      met_(std::clamp<std::size_t>(std::bit_ceil(bytes / 4 + 1), 1, 1U << 15)) {}

REEF_INLINE void BpeVocabulary::Encoder::append(std::vector<std::int32_t>& tokens,
                                                std::string_view piece) {
  if (piece.size() == 1) {
    tokens.push_back(vocabulary_->bytes_[static_cast<unsigned char>(piece.front())]);
    return;
  }
  Met& before = met_[hash(piece) & (met_.size() - 1)];
  const std::size_t begin = tokens.size();
  if (before.piece == piece) {
    tokens.resize(begin + before.count);
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(before.begin), before.count,
                tokens.begin() + static_cast<std::ptrdiff_t>(begin));
  } else {
    vocabulary_->append(tokens, piece, merger_);
    before = {piece, begin, tokens.size() - begin};
  }
}

REEF_INLINE void BpeVocabulary::append(std::vector<std::int32_t>& tokens, std::string_view piece,
                                       BpeMerger& merger) const {
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

REEF_INLINE std::size_t BpeVocabulary::hash(std::string_view piece) {
  std::uint64_t h = piece.size();
  for (const char c : piece) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return static_cast<std::size_t>(h ^ h >> 15);
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
