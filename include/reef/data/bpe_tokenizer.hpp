#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/data/detail/bpe_merger.hpp>
#include <reef/data/gpt2_pattern.hpp>

namespace reef::inline v0::data {

/// GPT-2's byte-level pair encoding: text is cut into pieces by GPT-2's pattern, and in each piece
/// the neighbours of lowest rank merge until none do.
///
/// | text   | any bytes, also such as are no UTF-8 (gpt2_pattern.hpp); decode(encode(x)) = x   |
/// | order  | the lowest rank merges first, of equal ones the leftmost                         |
/// | cost   | O(n log n) for a piece of n bytes; one that came before in the text is looked up |
/// | memory | about 15 MB for GPT-2's 50257 tokens; threads may share one                      |
/// | errors | DecodeError with file and line for what is malformed, and for a vocabulary and   |
/// |        | merges of two tokenizers; FileError where a file cannot be read                  |
///
/// Specials are not looked for in text: "<|endoftext|>" in it is its characters' tokens.
///
/// Source: Sennrich et al., Neural Machine Translation of Rare Words with Subword Units, ACL 2016,
/// algorithm 1, over bytes as in Radford et al., Language Models are Unsupervised Multitask
/// Learners, 2019, section 2.2.
class BpeTokenizer {
public:
  static constexpr std::string_view end_of_text_name = "<|endoftext|>";

  /// From GPT-2's vocab.json and merges.txt, which OpenAI calls encoder.json and vocab.bpe, and the
  /// added_tokens.json that Hugging Face may lay beside them.
  [[nodiscard]] static BpeTokenizer read_gpt2(const std::filesystem::path& vocabulary,
                                              const std::filesystem::path& merges,
                                              const std::filesystem::path& added = {}) {
    detail::BpeFiles files = detail::read_vocabulary(vocabulary);
    detail::read_merges(files, merges);
    if (!added.empty()) detail::read_added_tokens(files, added);
    return BpeTokenizer(std::move(files), false);
  }

  /// From a tiktoken file of ranks: a token's id is its rank, and "<|endoftext|>" follows the last.
  ///
  /// A piece that is a token is that one, whether or not merges lead to it.
  [[nodiscard]] static BpeTokenizer read_tiktoken(const std::filesystem::path& ranks) {
    detail::BpeFiles files = detail::read_ranks(ranks);
    const std::string name(end_of_text_name);
    if (files.ids.emplace(name, static_cast<std::int32_t>(files.tokens.size())).second) {
      files.tokens.push_back(name);
    }
    return BpeTokenizer(std::move(files), true);
  }

  /// V: tokens are 0 to V - 1.
  [[nodiscard]] std::int32_t vocabulary() const {
    return static_cast<std::int32_t>(begins_.size()) - 1;
  }

  /// The token of "<|endoftext|>", which is set between documents; none if the files have none.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const { return end_of_text_; }

  /// The token of these bytes, special ones included, or none. Looks at all.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view bytes) const {
    for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
      const std::string_view token(text_.data() + begins_[i], begins_[i + 1] - begins_[i]);
      if (token == bytes) return static_cast<std::int32_t>(i);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
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

  /// The bytes of the tokens. Throws DecodeError if one is outside [0, V).
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const {
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

private:
  struct Met {
    std::string_view piece;
    std::size_t begin = 0;  // of its tokens
    std::size_t count = 0;
  };

  BpeTokenizer(detail::BpeFiles files, bool whole_pieces) : merges_(files.merges) {
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

  /// The tokens of a piece that was not met before.
  void append(std::vector<std::int32_t>& tokens, std::string_view piece,
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

  [[nodiscard]] static std::size_t hash(std::string_view piece) {
    std::uint64_t h = piece.size();
    for (const char c : piece) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    return static_cast<std::size_t>(h ^ h >> 15);
  }

  std::string text_;                 // of all tokens
  std::vector<std::size_t> begins_;  // (V + 1,) of each token in it
  std::array<std::int32_t, 256> bytes_{};
  detail::MergeTable merges_;
  std::unordered_map<std::string, std::int32_t> pieces_;  // empty where only merges count
  std::optional<std::int32_t> end_of_text_;
};

}  // namespace reef::inline v0::data
