#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/added_tokens.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/data/detail/bpe_vocabulary.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// Options of a BpeTokenizer.
struct BpeTokenizerOptions {
  bool finds_added =
      false;  ///< true: "<|endoftext|>" and added tokens are found in text; false: they are encoded as characters
};

/// GPT-2's tokenizer, a byte-level byte-pair encoding: text is cut into pieces by GPT-2's pattern, and in
/// each piece the neighbours of lowest rank are merged until no neighbours have a rank.
///
/// | text   | any bytes, UTF-8 or not (gpt2_pattern.hpp); decode(encode(x)) = x                |
/// | order  | neighbours of the lowest rank are merged first, among equal ones the leftmost    |
/// | cost   | O(n log n) for a piece of n bytes; a repeated piece is looked up                 |
/// | memory | about 15 MB for GPT-2's 50257 tokens; threads may share a tokenizer              |
/// | errors | DecodeError with file and line for malformed files, and for a vocabulary and     |
/// |        | merges that belong to different tokenizers; FileError if a file cannot be read   |
///
/// "<|endoftext|>" and added tokens in a text are encoded as their characters, or found: BpeTokenizerOptions.
///
/// Source: Sennrich et al., Neural Machine Translation of Rare Words with Subword Units, ACL 2016,
/// algorithm 1, over bytes as in Radford et al., Language Models are Unsupervised Multitask
/// Learners, 2019, section 2.2.
///
/// \code
/// const auto tokenizer = data::BpeTokenizer::read_gpt2("vocab.json", "merges.txt");
/// const std::vector<std::int32_t> tokens = tokenizer.encode("Hello, world");
/// const std::string text = tokenizer.decode(tokens);
/// \endcode
class BpeTokenizer {
public:
  static constexpr std::string_view end_of_text_name = "<|endoftext|>";

  /// Reads GPT-2's vocab.json and merges.txt, which OpenAI calls encoder.json and vocab.bpe, and, if one is
  /// given as `added`, Hugging Face's added_tokens.json.
  [[nodiscard]] static BpeTokenizer read_gpt2(const std::filesystem::path& vocabulary,
                                              const std::filesystem::path& merges,
                                              const std::filesystem::path& added = {},
                                              BpeTokenizerOptions options = {});

  /// Reads a tiktoken file of ranks: a token's id is its rank, and "<|endoftext|>" has the next id after the last.
  ///
  /// A piece that equals a token is encoded as that token, whether or not merges lead to it.
  [[nodiscard]] static BpeTokenizer read_tiktoken(const std::filesystem::path& ranks,
                                                  BpeTokenizerOptions options = {});

  /// Returns the number of tokens, whose ids are 0 to vocabulary() - 1.
  [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_.size(); }

  /// Returns the token of "<|endoftext|>", which separates documents, or std::nullopt if the files have none.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const { return end_of_text_; }

  /// Returns the token that has these bytes, special tokens included, or std::nullopt. Compares all tokens.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view bytes) const {
    return vocabulary_.find(bytes);
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// Returns the bytes of the tokens, joined. Throws DecodeError if a token is not in the vocabulary.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;

private:
  /// Makes a tokenizer of files, whose tokens from number `added` on are added ones.
  BpeTokenizer(detail::BpeFiles files, bool whole_pieces, std::size_t added, BpeTokenizerOptions options);

  std::optional<std::int32_t> end_of_text_;
  AddedTokenTable found_;
  detail::BpeVocabulary vocabulary_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/bpe_tokenizer.ipp>
#endif
