#pragma once

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

#include <reef/data/added_tokens.hpp>
#include <reef/data/detail/bpe_vocabulary.hpp>
#include <reef/data/detail/tokenizer_json_file.hpp>
#include <reef/data/split_pattern.hpp>
#include <reef/data/text_functions.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// Options of a TokenizerJson, the tokenizer of a Hugging Face tokenizer.json.
struct TokenizerJsonOptions {
  bool finds_added =
      true;  ///< true: added tokens, such as "<|im_end|>", are found in text; false: they are encoded as characters
};

/// The byte-level tokenizer of a Hugging Face tokenizer.json, such as those of GPT-2, Llama 3 and Qwen 2.
///
/// | text   | any bytes; decode(encode(x)) = x, except for a prefix space and NFC if the file asks for them  |
/// | bytes  | bytes that are not UTF-8 are pieces of their own                                               |
/// | order  | added tokens are found first, at each byte the longest; then the text between them is          |
/// |        | normalised, and cut by the file's patterns; in each piece the lowest rank merges first         |
/// | cost   | one search for a match for each piece, and O(n log n) for a piece of n bytes; a repeated piece |
/// |        | is looked up                                                                                   |
/// | errors | DecodeError with file, field and fix for malformed fields, and for those that would change     |
/// |        | results and are not supported; OptionError if the program is built without a required library  |
///
/// Source: Hugging Face, tokenizers 0.21, the forms of ByteLevel, Split, NFC, BPE and TemplateProcessing.
/// Deviation: `\p` follows PCRE2's Unicode version, GPT-2's own pattern that of gpt2_pattern.hpp; truncation, padding
/// and the tokens that a template puts behind a text are left to the caller.
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

  /// Returns the number of tokens, whose ids are 0 to vocabulary() - 1.
  [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_.size(); }

  /// Returns the token that has these bytes, added tokens included, or std::nullopt. Compares all tokens.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view bytes) const {
    return vocabulary_.find(bytes);
  }

  /// Returns the tokens of a text. Throws DecodeError if a pattern takes too many steps, OptionError for text that
  /// needs NFC in a program that is built without utf8proc.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// Encodes text that continues earlier text: encode(text) without the space that the file may put in front of a text.
  [[nodiscard]] std::vector<std::int32_t> encode_more(std::string_view text) const;

  /// Encodes the beginning of a text: encode(text), preceded by the tokens that the file's post-processor puts before a
  /// text; in most models that is one token, the beginning of text.
  [[nodiscard]] std::vector<std::int32_t> encode_begin(std::string_view text) const;

  /// Returns the bytes of the tokens, joined. Throws DecodeError if a token is not in the vocabulary.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;

private:
  struct Step {
    std::shared_ptr<const SplitPattern> pattern;  // the pattern by which the step cuts; null: the step has no pattern
    bool by_gpt2;
    bool puts_space;
  };
  /// The intermediate state of encoding one text.
  struct Work {
    detail::BpeVocabulary::Encoder encoder;
    std::vector<std::int32_t> tokens;
    std::deque<std::string> made;  // owns the changed texts to which pieces refer
    bool continues;                // the next piece continues earlier text: no space is put in front of it
  };

  TokenizerJson(detail::TokenizerJsonFile file, TokenizerJsonOptions options,
                TextFunctions functions);

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, bool continues) const;

  /// Returns a text in which each run of valid UTF-8 is in Unicode's normal form C.
  [[nodiscard]] std::string normalised(std::string_view text) const;

  /// Cuts a piece of text by the file's patterns from number `step` on, and encodes the resulting pieces.
  void cut(Work& work, std::string_view piece, std::size_t step) const;

  detail::BpeVocabulary vocabulary_;
  std::vector<Step> steps_;
  // The function that normalises texts; null: texts are not normalised.
  std::string (*nfc_)(std::string_view) = nullptr;
  AddedTokenTable added_raw_;
  AddedTokenTable added_normalised_;
  std::vector<std::int32_t> front_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/tokenizer_json.ipp>
#endif
