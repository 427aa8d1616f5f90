#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/data/added_tokens.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/byte_tokenizer.hpp>
#include <reef/data/pairs.hpp>
#include <reef/data/sentence_piece_tokenizer.hpp>
#include <reef/data/tokenizer_json.hpp>

#include "numbers.hpp"

namespace reef_examples {

/// How a command line names tokenizers.
inline constexpr std::string_view tokenizer_forms =
    "bytes, gpt2:DIR (with vocab.json and merges.txt), tiktoken:FILE, json:FILE (a tokenizer.json of Hugging Face) or "
    "sentencepiece:FILE (a tokenizer.model)";

/// "gpt2:DIR" as {"gpt2", "DIR"}; the first is empty where the name is none of the forms.
inline std::pair<std::string, std::string> split_tokenizer_name(const std::string& name) {
  if (name == "bytes") return {"bytes", ""};
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  if (colon == std::string::npos || colon + 1 == name.size()) return {};
  if (kind != "gpt2" && kind != "tiktoken" && kind != "json" && kind != "sentencepiece") return {};
  return {kind, name.substr(colon + 1)};
}

/// The folder that a tokenizer of this name lies in; empty for bytes.
inline std::filesystem::path folder_of_tokenizer(const std::string& name) {
  const auto [kind, place] = split_tokenizer_name(name);
  if (kind.empty() || kind == "bytes") return {};
  if (kind == "gpt2") return place;
  const std::filesystem::path folder = std::filesystem::path(place).parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

/// The files that a tokenizer of this name may read.
inline std::vector<std::filesystem::path> files_of_tokenizer(const std::string& name) {
  const auto [kind, place] = split_tokenizer_name(name);
  std::vector<std::filesystem::path> files;
  if (!kind.empty() && kind != "bytes" && kind != "gpt2") files.push_back(place);
  if (kind == "sentencepiece") {
    for (const char* file : {"added_tokens.json", "tokenizer_config.json", "tokenizer.json"})
      files.push_back(folder_of_tokenizer(name) / file);
  }
  if (kind != "gpt2") return files;
  for (const char* file :
       {"vocab.json", "merges.txt", "added_tokens.json", "encoder.json", "vocab.bpe"})
    files.push_back(std::filesystem::path(place) / file);
  return files;
}

/// The name of the tokenizer that lies in the folder of a model; empty where there is none. A tokenizer.model comes first
/// where it can be read: the tokenizer.json beside it says the same in pieces that fall back on bytes, and what that adds
/// is read too.
inline std::string tokenizer_of_folder(const std::filesystem::path& folder) {
#if defined(REEF_HAS_SENTENCEPIECE)
  if (exists(folder / "tokenizer.model")) return "sentencepiece:" + (folder / "tokenizer.model").string();
#endif
  if (exists(folder / "tokenizer.json")) return "json:" + (folder / "tokenizer.json").string();
  if (exists(folder / "vocab.json") && exists(folder / "merges.txt")) return "gpt2:" + folder.string();
  if (exists(folder / "tokenizer.model")) return "sentencepiece:" + (folder / "tokenizer.model").string();
  return "";
}

/// What a text is to a tokenizer of files: in what is trained on, "<|im_end|>" is characters; in a prompt it is a token,
/// where the tokenizer has it.
enum class TextUse : std::uint8_t { training, prompts };

/// The tokenizer that a command line names.
class Tokenizer {
public:
  explicit Tokenizer(const std::string& name, TextUse use = TextUse::training) {
    const auto [kind, place] = split_tokenizer_name(name);
    const bool finds_added = use == TextUse::prompts;
    if (kind == "gpt2") {
      const std::filesystem::path folder = place;
      // OpenAI's names, where they are there and Hugging Face's are not.
      const bool openai = !exists(folder / "vocab.json") && exists(folder / "encoder.json");
      const std::filesystem::path added = folder / "added_tokens.json";
      kind_ = reef::data::BpeTokenizer::read_gpt2(folder / (openai ? "encoder.json" : "vocab.json"),
                                                  folder / (openai ? "vocab.bpe" : "merges.txt"),
                                                  exists(added) ? added : std::filesystem::path(),
                                                  {.finds_added = finds_added});
    } else if (kind == "tiktoken") {
      kind_ = reef::data::BpeTokenizer::read_tiktoken(place, {.finds_added = finds_added});
    } else if (kind == "json") {
      kind_ = reef::data::TokenizerJson::read(place, {.finds_added = finds_added});
    } else if (kind == "sentencepiece") {
      kind_ = reef::data::SentencePieceTokenizer::read(
          place, {.added = reef::data::read_added_tokens(folder_of_tokenizer(name)), .finds_added = finds_added});
    } else if (kind != "bytes") {
      throw reef::OptionError("the tokenizer '", name, "' is none of these: ", tokenizer_forms,
                              ".");
    }
  }

  [[nodiscard]] bool is_bytes() const {
    return std::holds_alternative<reef::data::ByteTokenizer>(kind_);
  }
  [[nodiscard]] std::int32_t vocabulary() const {
    return visit_files(reef::data::ByteTokenizer::vocabulary, [](const auto& own) { return own.vocabulary(); });
  }
  /// What a token is called: the unit of losses.
  [[nodiscard]] std::string_view unit() const { return is_bytes() ? "byte" : "token"; }

  /// The token that a command line names, by its number or by its text; nothing where there is none.
  [[nodiscard]] std::optional<std::int32_t> find(const std::string& name) const {
    std::optional<std::int32_t> found = parse_number<std::int32_t>(name);
    if (found && (*found < 0 || *found >= vocabulary())) found.reset();
    if (!found) {
      found = visit_files(found, [&](const auto& own) { return own.find(name); });
    }
    if (!found && is_bytes() && name.size() == 1 && name.find_first_of("0123456789") != 0)
      found = static_cast<unsigned char>(name.front());
    return found;
  }

  /// The token that find() returns. Throws OptionError where there is none.
  [[nodiscard]] std::int32_t token(const std::string& name) const {
    const std::optional<std::int32_t> found = find(name);
    if (!found) {
      throw reef::OptionError("the tokenizer has no token ", reef::in_quotes(name),
                              ".\n  fix: a number from 0 to ", vocabulary() - 1,
                              is_bytes() ? ", or one character of ASCII." : ", or a token's text.");
    }
    return *found;
  }

  /// The token that ends a text, where the tokenizer's files name one.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const {
    return std::visit(
        [](const auto& tokenizer) -> std::optional<std::int32_t> {
          if constexpr (requires { tokenizer.end_of_text(); }) {
            return tokenizer.end_of_text();
          } else {
            return std::nullopt;
          }
        },
        kind_);
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    return std::visit([&](const auto& tokenizer) { return tokenizer.encode(text); }, kind_);
  }
  /// The begin of a text: behind bos, where the tokenizer's files say so.
  [[nodiscard]] std::vector<std::int32_t> encode_begin(std::string_view text) const {
    return std::visit(
        [&](const auto& tokenizer) {
          if constexpr (requires { tokenizer.encode_begin(text); }) {
            return tokenizer.encode_begin(text);
          } else {
            return tokenizer.encode(text);
          }
        },
        kind_);
  }
  /// The tokens that stand before every text: bos, or none.
  [[nodiscard]] std::vector<std::int32_t> begin() const { return encode_begin(""); }

  /// The tokens of a text that goes on from another: no space is put before its first word.
  [[nodiscard]] std::vector<std::int32_t> encode_more(std::string_view text) const {
    return std::visit(
        [&](const auto& tokenizer) {
          if constexpr (requires { tokenizer.encode_more(text); }) {
            return tokenizer.encode_more(text);
          } else {
            return tokenizer.encode(text);
          }
        },
        kind_);
  }

  /// A prompt as encode_begin() has it, and behind it its completion: the tokens of the whole text, as of Hugging Face,
  /// where the prompt's are the first of these; where one token would reach from the prompt into the completion, the
  /// completion's own tokens go on from the prompt's, as they do when the model continues that prompt.
  [[nodiscard]] reef::data::TokenPair encode_pair(const std::string& prompt, const std::string& completion) const {
    std::vector<std::int32_t> front = encode_begin(prompt);
    const std::size_t size = front.size();
    std::vector<std::int32_t> whole = encode_begin(prompt + completion);
    if (size < whole.size() && std::equal(front.begin(), front.end(), whole.begin())) return {std::move(whole), size};
    const std::vector<std::int32_t> more = encode_more(completion);
    front.insert(front.end(), more.begin(), more.end());
    return {std::move(front), size};
  }

  /// Puts the tokens of begin() before a pair that does not begin with them, such as a conversation.
  void begin_pair(reef::data::TokenPair& pair) const {
    const std::vector<std::int32_t> front = begin();
    const std::size_t size = front.size();
    if (size <= pair.tokens.size() && std::equal(front.begin(), front.end(), pair.tokens.begin())) return;
    pair.tokens.insert(pair.tokens.begin(), front.begin(), front.end());
    pair.prompt += size;
    for (reef::data::TokenRange& range : pair.skipped) range = {range.begin + size, range.end + size};
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const {
    return std::visit([&](const auto& tokenizer) { return tokenizer.decode(tokens); }, kind_);
  }

  /// The text of tokens that go on from others.
  [[nodiscard]] std::string decode_more(std::span<const std::int32_t> tokens) const {
    return std::visit(
        [&](const auto& tokenizer) {
          if constexpr (requires { tokenizer.decode_more(tokens); }) {
            return tokenizer.decode_more(tokens);
          } else {
            return tokenizer.decode(tokens);
          }
        },
        kind_);
  }

private:
  /// Returns f(tokenizer) for one that was read from files, else `otherwise`.
  template <class T, class F>
  [[nodiscard]] T visit_files(T otherwise, const F& f) const {
    return std::visit(
        [&](const auto& tokenizer) -> T {
          if constexpr (std::is_same_v<decltype(tokenizer), const reef::data::ByteTokenizer&>) {
            return otherwise;
          } else {
            return f(tokenizer);
          }
        },
        kind_);
  }

  std::variant<reef::data::ByteTokenizer, reef::data::BpeTokenizer, reef::data::TokenizerJson,
               reef::data::SentencePieceTokenizer>
      kind_;
};

}  // namespace reef_examples
