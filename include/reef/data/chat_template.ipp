#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/data/chat_template.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

inline constexpr const char* name_a_template = "name the template: chatml, llama3 or plain (reef-train --template)";

/// Returns the Jinja of a folder's chat_template and the place that has it; nothing where there is none.
inline std::optional<std::pair<std::string, std::string>> jinja_of_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "chat_template.jinja";
  if (exists(file)) return std::pair(io::read_file(file, 16_MiB), concat("'", file.string(), "'"));
  const std::filesystem::path config = folder / "tokenizer_config.json";
  if (!exists(config)) return std::nullopt;
  const std::string source = concat("'", config.string(), "'");
  const io::Json json = io::read_json(config);
  io::require_object(json, "", source);
  if (!json.contains("chat_template") || json.at("chat_template").is_null()) return std::nullopt;
  const std::string place = concat(source, ": chat_template");
  if (!json.at("chat_template").is_array())
    return std::pair(io::require<std::string>(json, "chat_template", source), place);
  for (const io::Json& one : json.at("chat_template")) {  // several, by name
    io::require_object(one, "chat_template", source);
    if (io::require<std::string>(one, "name", place) == "default")
      return std::pair(io::require<std::string>(one, "template", place), place);
  }
  throw DecodeError("reef::data: ", place,
                    " has several templates, none of them named default.\n  fix: ", name_a_template, ".");
}

}  // namespace detail

REEF_INLINE std::string ChatTemplate::content_of(const Message& message) const {
  std::string_view content = message.content;
  constexpr std::string_view space = " \t\n\r\v\f";
  if (trims) {
    content.remove_prefix((std::min)(content.find_first_not_of(space), content.size()));
    content = content.substr(0, content.find_last_not_of(space) + 1);
  }
  return std::string(content);
}

REEF_INLINE std::string ChatTemplate::text_of(const std::vector<Message>& messages) const {
  std::string text = begin;
  for (const Message& message : messages)
    text += concat(role_begin, message.role, role_end, header, content_of(message), turn_end, separator);
  return text;
}

REEF_INLINE ChatTemplate chat_template(std::string_view name) {
  if (name == "chatml") return {"chatml", "", "<|im_start|>", "", "\n", "<|im_end|>", "\n"};
  if (name == "llama3")
    return {"llama3", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "\n\n", "<|eot_id|>", "", true};
  if (name == "plain") return {"plain", "", "", "", ":\n", "", "\n"};
  throw OptionError("reef::data::chat_template: ", in_quotes(name),
                    " is no template.\n  fix: chatml, llama3 or plain.");
}

REEF_INLINE ChatTemplate read_chat_template(const std::filesystem::path& folder) {
  const auto found = detail::jinja_of_folder(folder);
  if (!found) {
    throw DecodeError("reef::data: the folder '", folder.string(), "' has no chat_template.\n",
                      "  why: conversations are text in the form that it says.\n  fix: ", detail::name_a_template, ".");
  }
  const auto has = [&](std::string_view token) { return found->first.find(token) != std::string::npos; };
  const bool chatml = has("<|im_start|>") && has("<|im_end|>") && !has("<|im_sep|>");
  const bool llama3 = has("<|start_header_id|>") && has("<|end_header_id|>") && has("<|eot_id|>");
  if (chatml != llama3) return chat_template(chatml ? "chatml" : "llama3");
  throw DecodeError(
      "reef::data: ", found->second, " is of no template that is known here: ", in_quotes(found->first),
      ".\n  why: it is Jinja, which is not run; chatml is told by <|im_start|>, llama3 by <|start_header_id|>.\n",
      "  fix: ", detail::name_a_template, ".");
}

}  // namespace data
}  // namespace v0
}  // namespace reef
