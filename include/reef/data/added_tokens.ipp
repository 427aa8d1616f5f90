#pragma once

#include <charconv>
#include <limits>
#include <map>
#include <system_error>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/data/added_tokens.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

/// Gathers the added tokens of several files.
class AddedTokenReader {
public:
  void read_object(const std::filesystem::path& path) {  // {"<pad>": 32000}
    open(path);
    io::require_object(json_, "", source_);
    for (const auto& [content, id] : json_.items()) add({.content = content, .id = id_of(id, content)});
  }
  void read_decoder(const std::filesystem::path& path) {  // {"added_tokens_decoder": {"32000": {"content": "<pad>"}}}
    open(path);
    io::require_object(json_, "", source_);
    const auto decoder = json_.find("added_tokens_decoder");
    if (decoder == json_.end() || decoder->is_null()) return;
    io::require_object(json_, "added_tokens_decoder", source_);
    for (const auto& [key, entry] : decoder->items()) {
      std::int32_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0) refuse(key, "is no id");
      add(token_of(entry, id));
    }
  }
  void read_list(const std::filesystem::path& path) {  // {"added_tokens": [{"id": 32000, "content": "<pad>"}]}
    open(path);
    io::require_object(json_, "", source_);
    const auto list = json_.find("added_tokens");
    if (list == json_.end() || list->is_null()) return;
    if (!list->is_array()) refuse("added_tokens", "is no list");
    for (const io::Json& entry : *list) {
      io::require_object(entry, "", concat(source_, ": a token of added_tokens"));
      add(token_of(entry, entry.contains("id") ? id_of(entry.at("id"), "added_tokens") : -1));
    }
  }

  [[nodiscard]] std::vector<AddedToken> tokens() const {
    std::vector<AddedToken> all;
    for (const auto& [id, token] : by_id_) all.push_back(token);
    return all;
  }

private:
  void open(const std::filesystem::path& path) {
    source_ = concat("'", path.string(), "'");
    json_ = io::read_json(path, {.bytes = 256_MiB});
  }
  [[noreturn]] void refuse(std::string_view token, const std::string& why) const {
    throw DecodeError("reef::data::read_added_tokens: ", source_, ": ", in_quotes(token), " ", why,
                      ".\n  fix: the files as their tokenizer has written them, unchanged, all of one model.");
  }
  [[nodiscard]] std::int32_t id_of(const io::Json& id, std::string_view token) const {
    constexpr std::uint64_t most = (std::numeric_limits<std::int32_t>::max)() - 1;
    if (id.is_number_unsigned() && id.get<std::uint64_t>() <= most) return id.get<std::int32_t>();
    refuse(token, "has no id");
  }
  [[nodiscard]] AddedToken token_of(const io::Json& entry, std::int32_t id) const {
    const std::string place = concat(source_, ": added token ", id);
    io::require_object(entry, "", place);
    AddedToken token{.content = io::require<std::string>(entry, "content", place), .id = id};
    const auto flag = [&](const char* field, bool usual) { return io::value_or<bool>(entry, field, usual, place); };
    token.normalized = flag("normalized", !flag("special", false));
    token.takes_beside = flag("single_word", false) || flag("lstrip", false) || flag("rstrip", false);
    return token;
  }
  void add(const AddedToken& token) {
    if (token.content.empty()) refuse(token.content, "is empty");
    if (token.id < 0) refuse(token.content, "has no id");
    const auto [known, is_new] = by_id_.emplace(token.id, token);
    if (!is_new && known->second.content != token.content)
      refuse(token.content, concat("has the id ", token.id, " of ", in_quotes(known->second.content)));
    if (!is_new) known->second.takes_beside |= token.takes_beside;
    const auto [same, is_first] = by_text_.emplace(token.content, token.id);
    if (!is_first && same->second != token.id)
      refuse(token.content, concat("has the id ", token.id, ", and also ", same->second));
  }

  std::string source_;
  io::Json json_;
  std::map<std::int32_t, AddedToken> by_id_;
  std::map<std::string, std::int32_t> by_text_;
};

}  // namespace detail

REEF_INLINE std::vector<AddedToken> read_added_tokens(const std::filesystem::path& folder) {
  detail::AddedTokenReader reader;
  if (exists(folder / "added_tokens.json")) reader.read_object(folder / "added_tokens.json");
  if (exists(folder / "tokenizer_config.json")) reader.read_decoder(folder / "tokenizer_config.json");
  if (exists(folder / "tokenizer.json")) reader.read_list(folder / "tokenizer.json");
  return reader.tokens();
}

}  // namespace data
}  // namespace v0
}  // namespace reef
