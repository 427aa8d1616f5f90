#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/data/detail/bpe_vocabulary.hpp>
#include <reef/data/detail/tokenizer_json_file.hpp>
#include <reef/data/split_pattern.hpp>
#include <reef/data/text_functions.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// What a TokenizerJson makes of a text besides its pieces.
struct TokenizerJsonOptions {
  bool finds_added =
      true;  ///< finds added tokens, such as "<|im_end|>"; else they are encoded as characters
};

/// The byte-level tokenizer of a Hugging Face tokenizer.json, such as those of GPT-2, Llama 3 and Qwen 2.
///
/// | text   | any bytes; decode(encode(x)) = x, but for a prefix space and NFC where the file asks for them    |
/// | bytes  | those that are no UTF-8 are pieces of their own                                               |
/// | order  | added tokens are found first, of those that begin at a byte the longest; then the text is     |
/// |        | normalised, and cut by the file's patterns; in each piece the lowest rank merges first         |
/// | cost   | one look for a match for each piece, and O(n log n) for a piece of n bytes; a piece that the   |
/// |        | text had before is looked up                                                                  |
/// | errors | DecodeError with file, field and fix for what is malformed, or known to change results and not |
/// |        | done here; OptionError where the file needs a library that the program is built without       |
///
/// Source: Hugging Face, tokenizers 0.21, the forms of ByteLevel, Split, NFC, BPE and TemplateProcessing.
/// Deviation: `\p` is by PCRE2's Unicode version, GPT-2's own pattern by gpt2_pattern.hpp's; truncation, padding and
/// what a template puts behind a text are left to the caller.
///
/// \code
/// const auto tokenizer = data::TokenizerJson::read("model/tokenizer.json");
/// const std::vector<std::int32_t> tokens = tokenizer.encode_begin("Hello, world");
/// const std::string text = tokenizer.decode(tokens);
/// \endcode
class TokenizerJson {
public:
  [[nodiscard]] static TokenizerJson read(const std::filesystem::path& path,
                                          TokenizerJsonOptions options = {}) {
    return TokenizerJson(detail::read_tokenizer_json(path), options, text_functions());
  }

  /// V, the number of tokens, which are 0 to V - 1.
  [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_.size(); }

  /// Finds the token of these bytes, added tokens included; nothing if there is none. Compares all tokens.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view bytes) const {
    return vocabulary_.find(bytes);
  }

  /// Throws DecodeError where a pattern takes too many steps, OptionError for text that needs NFC in a program that is
  /// built without utf8proc.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// Encodes the begin of a text: encode(), behind what the post-processor puts in front, which is bos with most models.
  [[nodiscard]] std::vector<std::int32_t> encode_begin(std::string_view text) const;

  /// Returns the bytes of the tokens. Throws DecodeError if a token is outside [0, V).
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;

private:
  struct Step {
    std::shared_ptr<const SplitPattern> pattern;  // null: none
    bool by_gpt2;
    bool puts_space;
  };
  /// Added tokens by their first bytes, the longest first.
  using AddedTable = std::array<std::vector<detail::AddedToken>, 256>;
  /// The work on one text.
  struct Work {
    detail::BpeVocabulary::Encoder encoder;
    std::vector<std::int32_t> tokens;
    std::deque<std::string> made;  // texts that pieces lie in and the caller's has not
  };

  TokenizerJson(detail::TokenizerJsonFile file, TokenizerJsonOptions options,
                TextFunctions functions);

  /// Calls gap(text between) and token(id) for what a table's tokens cut a text into.
  template <class Gap, class Token>
  static void for_each_part(const AddedTable& table, std::string_view text, const Gap& gap,
                            const Token& token);

  /// Returns a text in which what is valid UTF-8 has the normal form.
  [[nodiscard]] std::string normalised(std::string_view text) const;

  /// Cuts a piece by the steps from one on, and encodes what they leave.
  void cut(Work& work, std::string_view piece, std::size_t step) const;

  detail::BpeVocabulary vocabulary_;
  std::vector<Step> steps_;
  std::string (*nfc_)(std::string_view) = nullptr;  // null: texts stay as they are
  AddedTable added_raw_;
  AddedTable added_normalised_;
  std::vector<std::int32_t> front_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/tokenizer_json.ipp>
#endif
