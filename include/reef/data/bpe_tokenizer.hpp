#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/data/detail/bpe_merger.hpp>

namespace reef {
inline namespace v0 {
namespace data {

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
///
/// \code
/// const auto tokenizer = data::BpeTokenizer::read_gpt2("vocab.json", "merges.txt");
/// const std::vector<std::int32_t> tokens = tokenizer.encode("Hello, world");
/// const std::string text = tokenizer.decode(tokens);
/// \endcode
class BpeTokenizer {
public:
  static constexpr std::string_view end_of_text_name = "<|endoftext|>";

  /// From GPT-2's vocab.json and merges.txt, which OpenAI calls encoder.json and vocab.bpe, and the
  /// added_tokens.json that Hugging Face may lay beside them.
  [[nodiscard]] static BpeTokenizer read_gpt2(const std::filesystem::path& vocabulary,
                                              const std::filesystem::path& merges,
                                              const std::filesystem::path& added = {});

  /// From a tiktoken file of ranks: a token's id is its rank, and "<|endoftext|>" follows the last.
  ///
  /// A piece that is a token is that one, whether or not merges lead to it.
  [[nodiscard]] static BpeTokenizer read_tiktoken(const std::filesystem::path& ranks);

  /// V: tokens are 0 to V - 1.
  [[nodiscard]] std::int32_t vocabulary() const {
    return static_cast<std::int32_t>(begins_.size()) - 1;
  }

  /// The token of "<|endoftext|>", which is set between documents; none if the files have none.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const { return end_of_text_; }

  /// The token of these bytes, special ones included, or none. Looks at all.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view bytes) const;

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// The bytes of the tokens. Throws DecodeError if one is outside [0, V).
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;

private:
  struct Met {
    std::string_view piece;
    std::size_t begin = 0;  // of its tokens
    std::size_t count = 0;
  };

  BpeTokenizer(detail::BpeFiles files, bool whole_pieces);

  /// The tokens of a piece that was not met before.
  void append(std::vector<std::int32_t>& tokens, std::string_view piece,
              detail::BpeMerger& merger) const;

  [[nodiscard]] static std::size_t hash(std::string_view piece);

  std::string text_;                 // of all tokens
  std::vector<std::size_t> begins_;  // (V + 1,) of each token in it
  std::array<std::int32_t, 256> bytes_{};
  detail::MergeTable merges_;
  std::unordered_map<std::string, std::int32_t> pieces_;  // empty where only merges count
  std::optional<std::int32_t> end_of_text_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/bpe_tokenizer.ipp>
#endif
