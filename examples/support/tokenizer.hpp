#pragma once

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
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/byte_tokenizer.hpp>

#include "numbers.hpp"

namespace reef_examples {

/// How a command line names tokenizers.
inline constexpr std::string_view tokenizer_forms =
    "bytes, gpt2:DIR (with vocab.json and merges.txt) or tiktoken:FILE";

/// "gpt2:DIR" as {"gpt2", "DIR"}; the first is empty where the name is none of the forms.
inline std::pair<std::string, std::string> split_tokenizer_name(const std::string& name) {
  if (name == "bytes") return {"bytes", ""};
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  if (colon == std::string::npos || colon + 1 == name.size()) return {};
  if (kind != "gpt2" && kind != "tiktoken") return {};
  return {kind, name.substr(colon + 1)};
}

/// The files that a tokenizer of this name may read.
inline std::vector<std::filesystem::path> files_of_tokenizer(const std::string& name) {
  const auto [kind, place] = split_tokenizer_name(name);
  if (kind == "tiktoken") return {place};
  std::vector<std::filesystem::path> files;
  if (kind != "gpt2") return files;
  for (const char* file :
       {"vocab.json", "merges.txt", "added_tokens.json", "encoder.json", "vocab.bpe"})
    files.push_back(std::filesystem::path(place) / file);
  return files;
}

/// The tokenizer that a command line names: bytes, or GPT-2's BPE from either kind of files.
class Tokenizer {
public:
  explicit Tokenizer(const std::string& name) {
    const auto [kind, place] = split_tokenizer_name(name);
    if (kind == "gpt2") {
      const std::filesystem::path folder = place;
      // OpenAI's names, where they are there and Hugging Face's are not.
      const bool openai = !exists(folder / "vocab.json") && exists(folder / "encoder.json");
      const std::filesystem::path added = folder / "added_tokens.json";
      kind_ = reef::data::BpeTokenizer::read_gpt2(folder / (openai ? "encoder.json" : "vocab.json"),
                                                  folder / (openai ? "vocab.bpe" : "merges.txt"),
                                                  exists(added) ? added : std::filesystem::path());
    } else if (kind == "tiktoken") {
      kind_ = reef::data::BpeTokenizer::read_tiktoken(place);
    } else if (kind != "bytes") {
      throw reef::OptionError("the tokenizer '", name, "' is none of these: ", tokenizer_forms,
                              ".");
    }
  }

  [[nodiscard]] bool is_bytes() const {
    return std::holds_alternative<reef::data::ByteTokenizer>(kind_);
  }
  [[nodiscard]] std::int32_t vocabulary() const {
    if (is_bytes()) return reef::data::ByteTokenizer::vocabulary;
    return std::get<reef::data::BpeTokenizer>(kind_).vocabulary();
  }
  /// What a token is called: the unit of losses.
  [[nodiscard]] std::string_view unit() const { return is_bytes() ? "byte" : "token"; }

  /// The token that a command line names, by its number or by its text.
  [[nodiscard]] std::int32_t token(const std::string& name) const {
    std::optional<std::int32_t> found = parse_number<std::int32_t>(name);
    if (found && (*found < 0 || *found >= vocabulary())) found.reset();
    if (!found && !is_bytes()) found = std::get<reef::data::BpeTokenizer>(kind_).find(name);
    if (!found && is_bytes() && name.size() == 1 && name.find_first_of("0123456789") != 0)
      found = static_cast<unsigned char>(name.front());
    if (!found) {
      throw reef::OptionError("the tokenizer has no token ", reef::in_quotes(name),
                              ".\n  fix: a number from 0 to ", vocabulary() - 1,
                              is_bytes() ? ", or one character of ASCII." : ", or a token's text.");
    }
    return *found;
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    return std::visit([&](const auto& tokenizer) { return tokenizer.encode(text); }, kind_);
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const {
    return std::visit([&](const auto& tokenizer) { return tokenizer.decode(tokens); }, kind_);
  }

private:
  std::variant<reef::data::ByteTokenizer, reef::data::BpeTokenizer> kind_;
};

}  // namespace reef_examples
