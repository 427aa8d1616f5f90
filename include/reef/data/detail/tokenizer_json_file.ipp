#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/data/detail/tokenizer_json_file.hpp>
#include <reef/data/detail/vocabulary_json.hpp>
#include <reef/data/split_pattern.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// Reads the parts of a tokenizer.json.
class TokenizerJsonReader {
public:
  explicit TokenizerJsonReader(const std::filesystem::path& path)
      : path_(path), name_(path.string()) {}

  TokenizerJsonFile read();

private:
  static constexpr std::string_view as_written =
      "the file as its tokenizer has written it, unchanged.";
  static constexpr std::string_view other_kind =
      "a byte-level tokenizer, as GPT-2, Llama 3 and Qwen have; for Llama 2 its tokenizer.model, "
      "by SentencePiece.";

  [[noreturn]] void refuse(const std::string& field, const std::string& why,
                           std::string_view fix = as_written) const {
    throw DecodeError("reef::data::TokenizerJson: '", name_, "': ", field, " ", why,
                      ".\n  fix: ", fix);
  }
  /// Refuses a value that a byte-level tokenizer does not have.
  [[noreturn]] void refuse_kind(const std::string& field, const io::Json& value,
                                std::string_view known) const {
    refuse(
        field,
        concat("is ", in_quotes(value.dump(-1, ' ', true, io::Json::error_handler_t::replace), 100),
               ", not ", known),
        other_kind);
  }

  /// Returns the member of an object; null where it has none. Throws where it is no object.
  [[nodiscard]] const io::Json& member(const io::Json& object, const std::string& field,
                                       const char* key) const;
  [[nodiscard]] std::string string(const io::Json& object, const std::string& field,
                                   const char* key) const;
  [[nodiscard]] bool flag(const io::Json& object, const std::string& field, const char* key,
                          bool otherwise) const;
  [[nodiscard]] const io::Json& list(const io::Json& object, const std::string& field,
                                     const char* key) const;
  /// Returns the parts of a "Sequence" under `key`, or the value itself.
  [[nodiscard]] std::vector<std::pair<std::string, const io::Json*>> parts(const io::Json& value,
                                                                           const std::string& field,
                                                                           const char* key,
                                                                           int depth = 0) const;

  void read_normalizer(const io::Json& value);
  void read_cuts(const io::Json& value);
  void read_split(const io::Json& value, const std::string& field);
  void read_model(const io::Json& value);
  void read_merges(const io::Json& merges);
  void read_added(const io::Json& value, const io::Json& vocabulary);
  void read_post_processor(const io::Json& value);
  void read_template(const io::Json& value, const std::string& field);
  void read_decoder(const io::Json& value) const;

  std::filesystem::path path_;
  std::string name_;
  TokenizerJsonFile file_;
};

REEF_INLINE const io::Json& TokenizerJsonReader::member(const io::Json& object,
                                                        const std::string& field,
                                                        const char* key) const {
  static const io::Json none;
  if (!object.is_object()) refuse(field.empty() ? "the whole" : field, "is no object");
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

REEF_INLINE std::string TokenizerJsonReader::string(const io::Json& object,
                                                    const std::string& field,
                                                    const char* key) const {
  const io::Json& value = member(object, field, key);
  if (!value.is_string()) refuse(concat(field, field.empty() ? "" : ".", key), "is no string");
  return value.get<std::string>();
}

REEF_INLINE bool TokenizerJsonReader::flag(const io::Json& object, const std::string& field,
                                           const char* key, bool otherwise) const {
  const io::Json& value = member(object, field, key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(concat(field, ".", key), "is neither true nor false");
  return value.get<bool>();
}

REEF_INLINE const io::Json& TokenizerJsonReader::list(const io::Json& object,
                                                      const std::string& field,
                                                      const char* key) const {
  const io::Json& value = member(object, field, key);
  if (!value.is_array()) refuse(concat(field, field.empty() ? "" : ".", key), "is no list");
  return value;
}

REEF_INLINE std::vector<std::pair<std::string, const io::Json*>> TokenizerJsonReader::parts(
    const io::Json& value, const std::string& field, const char* key, int depth) const {
  std::vector<std::pair<std::string, const io::Json*>> found;
  if (value.is_null()) return found;
  if (string(value, field, "type") != "Sequence") return {{field, &value}};
  if (depth == 4) refuse(field, "is a Sequence in a Sequence, and so on");
  const io::Json& all = list(value, field, key);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto inner = parts(all[i], concat(field, ".", key, ".", i), key, depth + 1);
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

REEF_INLINE void TokenizerJsonReader::read_normalizer(const io::Json& value) {
  for (const auto& [field, part] : parts(value, "normalizer", "normalizers")) {
    if (string(*part, field, "type") != "NFC") refuse_kind(field, *part, "NFC or null");
    file_.nfc = true;
  }
}

REEF_INLINE void TokenizerJsonReader::read_split(const io::Json& value, const std::string& field) {
  const io::Json& pattern = member(value, field, "pattern");
  if (!pattern.is_object() || !pattern.contains("Regex"))
    refuse_kind(field + ".pattern", pattern, "a Regex");
  if (const std::string behavior = string(value, field, "behavior"); behavior != "Isolated") {
    refuse_kind(field + ".behavior", behavior, "Isolated");
  }
  if (flag(value, field, "invert", false)) refuse_kind(field + ".invert", true, "false");
  const std::string expression = string(pattern, field + ".pattern", "Regex");
  if (expression.empty()) refuse(field + ".pattern.Regex", "is empty");
  CutStep step;
  step.place = concat("'", name_, "': ", field, ".pattern.Regex");
  try {
    step.pattern = pcre2_form(expression);
  } catch (const DecodeError& error) {
    throw DecodeError("reef::data::TokenizerJson: ", step.place, " cannot be read: ", error.what());
  }
  file_.steps.push_back(std::move(step));
}

REEF_INLINE void TokenizerJsonReader::read_cuts(const io::Json& value) {
  bool ends = false;
  for (const auto& [field, part] : parts(value, "pre_tokenizer", "pretokenizers")) {
    const std::string type = string(*part, field, "type");
    if (ends) refuse(field, "comes behind ByteLevel, which is the last", other_kind);
    if (type == "Split") {
      read_split(*part, field);
    } else if (type == "Digits") {  // numbers of any script, as Hugging Face takes them
      const bool alone = flag(*part, field, "individual_digits", false);
      file_.steps.push_back({.pattern = alone ? "\\p{N}" : "\\p{N}+", .place = concat("'", name_, "': ", field)});
    } else if (type == "ByteLevel") {
      file_.steps.push_back({.pattern = "",
                             .by_gpt2 = flag(*part, field, "use_regex", true),
                             .puts_space = flag(*part, field, "add_prefix_space", true)});
      ends = true;
    } else {
      refuse_kind(field + ".type", type, "ByteLevel, Split, Digits or a Sequence of them");
    }
  }
  if (!ends) refuse_kind("pre_tokenizer", value, "ByteLevel, or a Sequence that ends with it");
}

REEF_INLINE void TokenizerJsonReader::read_model(const io::Json& value) {
  if (const std::string type = string(value, "model", "type"); type != "BPE")
    refuse_kind("model.type", type, "BPE");
  const io::Json& dropout = member(value, "model", "dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0))
    refuse_kind("model.dropout", dropout, "null");
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const io::Json& affix = member(value, "model", key);
    if (!affix.is_null() && affix != "") refuse_kind(concat("model.", key), affix, "null");
  }
  if (flag(value, "model", "byte_fallback", false))
    refuse_kind("model.byte_fallback", true, "false");
  // unk_token is of bytes without a token, and each has one.
  file_.bpe = vocabulary_of(member(value, "model", "vocab"), path_);
  file_.whole_pieces = flag(value, "model", "ignore_merges", false);
  read_merges(list(value, "model", "merges"));
}

REEF_INLINE void TokenizerJsonReader::read_merges(const io::Json& merges) {
  std::string left;
  std::string right;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const io::Json& merge = merges[i];
    const auto refuse_merge = [&](const std::string& why) {
      refuse(concat("model.merges.", i), why);
    };
    bool readable = false;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      readable = space != std::string::npos && text.find(' ', space + 1) == std::string::npos &&
                 bytes_of_visible(std::string_view(text).substr(0, space), left) &&
                 bytes_of_visible(std::string_view(text).substr(space + 1), right);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      readable = bytes_of_visible(merge[0].get_ref<const std::string&>(), left) &&
                 bytes_of_visible(merge[1].get_ref<const std::string&>(), right);
    }
    if (!readable)
      refuse_merge("is no pair of tokens, \"a b\" or [\"a\", \"b\"], in visible characters");
    const auto id_of = [&](const std::string& bytes, std::string_view what) {
      const auto found = file_.bpe.ids.find(bytes);
      if (found == file_.bpe.ids.end())
        refuse_merge(concat("is no pair of the vocabulary: ", what, " is no token"));
      return found->second;
    };
    file_.bpe.merges.push_back({id_of(left, "its left half"), id_of(right, "its right half"),
                                id_of(left + right, "its whole"), static_cast<std::int32_t>(i)});
  }
}

REEF_INLINE void TokenizerJsonReader::read_added(const io::Json& value,
                                                 const io::Json& vocabulary) {
  if (value.is_null()) return;
  if (!value.is_array()) refuse("added_tokens", "is no list");
  std::vector<std::string>& tokens = file_.bpe.tokens;
  const std::size_t first = tokens.size();
  tokens.resize(first + value.size());
  std::vector<bool> seen(tokens.size(), false);
  std::size_t end = first;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string field = concat("added_tokens.", i);
    AddedToken token;
    token.content = string(value[i], field, "content");
    if (token.content.empty()) refuse(field + ".content", "is empty");
    const bool special = flag(value[i], field, "special", false);
    token.normalized = flag(value[i], field, "normalized", !special);
    for (const char* const key : {"single_word", "lstrip", "rstrip"}) {
      if (flag(value[i], field, key, false)) {
        refuse(concat(field, ".", key),
               concat("is true: ", in_quotes(token.content),
                      " would take spaces or words beside it into account"),
               "a tokenizer whose added tokens stand for themselves alone.");
      }
    }
    const io::Json& id = member(value[i], field, "id");
    const std::uint64_t index = id.is_number_unsigned() ? id.get<std::uint64_t>() : ~0ULL;
    const auto known = vocabulary.find(token.content);
    if (known != vocabulary.end() ? *known != id : index < first || index >= tokens.size()) {
      refuse(field + ".id",
             concat("is ", in_quotes(id.dump()), " for ", in_quotes(token.content), ", which ",
                    known != vocabulary.end()
                        ? "the vocabulary has under another"
                        : concat("follows the vocabulary: from ", first, " on, without a gap")));
    }
    if (seen[index]) refuse(field + ".id", concat("is ", index, " again"));
    if (known != vocabulary.end() && tokens[index] != token.content) {
      refuse(field + ".content", concat("is ", in_quotes(token.content),
                                        ", which stands for other bytes in the vocabulary"));
    }
    seen[index] = true;
    token.id = static_cast<std::int32_t>(index);
    tokens[index] = token.content;
    end = std::max<std::size_t>(end, index + 1);
    file_.added.push_back(std::move(token));
  }
  tokens.resize(end);
  for (std::size_t i = first; i < end; ++i) {
    if (!seen[i]) refuse("added_tokens", concat("has no token of id ", i));
  }
}

REEF_INLINE void TokenizerJsonReader::read_template(const io::Json& value,
                                                    const std::string& field) {
  bool text_seen = false;
  const io::Json& single = list(value, field, "single");
  const io::Json& specials = member(value, field, "special_tokens");
  for (std::size_t i = 0; i < single.size(); ++i) {
    const std::string place = concat(field, ".single.", i);
    if (const io::Json& text = member(single[i], place, "Sequence"); !text.is_null()) {
      if (text_seen) refuse(place, "is a text again");
      text_seen = true;
      continue;
    }
    const std::string name =
        string(member(single[i], place, "SpecialToken"), place + ".SpecialToken", "id");
    const std::string field_of_ids = concat(field, ".special_tokens.", in_quotes(name));
    const io::Json& ids =
        list(member(specials, field + ".special_tokens", name.c_str()), field_of_ids, "ids");
    for (const io::Json& id : ids) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= file_.bpe.tokens.size()) {
        refuse(field_of_ids + ".ids", "has what is no token's id");
      }
      if (!text_seen) file_.front.push_back(id.get<std::int32_t>());
    }
  }
  if (!text_seen) refuse(field + ".single", "has no place for the text");
}

REEF_INLINE void TokenizerJsonReader::read_post_processor(const io::Json& value) {
  bool seen = false;
  for (const auto& [field, part] : parts(value, "post_processor", "processors")) {
    const std::string type = string(*part, field, "type");
    if (type == "ByteLevel") continue;  // of offsets alone
    if (type != "TemplateProcessing")
      refuse_kind(field + ".type", type, "ByteLevel, TemplateProcessing or a Sequence of them");
    if (seen) refuse(field, "is TemplateProcessing again");
    seen = true;
    read_template(*part, field);
  }
}

REEF_INLINE void TokenizerJsonReader::read_decoder(const io::Json& value) const {
  const auto all = parts(value, "decoder", "decoders");
  if (all.size() != 1 || string(*all[0].second, all[0].first, "type") != "ByteLevel")
    refuse_kind("decoder", value, "ByteLevel");
}

REEF_INLINE TokenizerJsonFile TokenizerJsonReader::read() {
  const io::Json json = io::read_json(path_, {.bytes = 256_MiB}, as_written);
  if (!json.is_object()) refuse("the whole", "is no object", "name Hugging Face's tokenizer.json.");
  // What is quick to look at and says most about the kind comes first.
  read_normalizer(member(json, "", "normalizer"));
  read_cuts(member(json, "", "pre_tokenizer"));
  read_decoder(member(json, "", "decoder"));
  const io::Json& model = member(json, "", "model");
  read_model(model);
  read_added(member(json, "", "added_tokens"), model["vocab"]);
  read_post_processor(member(json, "", "post_processor"));
  return std::move(file_);
}

REEF_INLINE TokenizerJsonFile read_tokenizer_json(const std::filesystem::path& path) {
  return TokenizerJsonReader(path).read();
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
