#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace reef {
inline namespace v0 {
namespace data {

/// A turn of a conversation. `judged`: true if a model learns to write the turn.
struct Message {
  std::string role;
  std::string content;
  bool judged = false;
};

/// The form in which a conversation is one text: special tokens, which no content can spell, and text between them.
///
///     begin, then for each message: role_begin ROLE role_end header CONTENT turn_end separator
///
/// | tokens | begin, role_begin, role_end, turn_end: the names of special tokens; an empty name is no token |
/// | text   | header, separator                                                                             |
struct ChatTemplate {
  std::string name;        ///< name of the template, by which errors call it
  std::string begin;       ///< name of the special token before the first message
  std::string role_begin;  ///< name of the special token before a role
  std::string role_end;    ///< name of the special token behind a role
  std::string header;      ///< text between a role and the content of a message
  std::string turn_end;    ///< name of the special token behind the content
  std::string separator;   ///< text behind a turn
  bool trims = false;      ///< true: content loses the white space at both of its ends

  /// Returns the text of a conversation in this template's form, special tokens by their names.
  [[nodiscard]] std::string text_of(const std::vector<Message>& messages) const;

  /// Returns a message's content in this template's form (without outer white space, if `trims`).
  [[nodiscard]] std::string content_of(const Message& message) const;
};

/// The names of the chat templates that chat_template() knows.
///
/// | chatml | <|im_start|>ROLE, line end, CONTENT<|im_end|>, line end, as of Qwen                                |
/// | llama3 | <|begin_of_text|>, then <|start_header_id|>ROLE<|end_header_id|>, two line ends, CONTENT<|eot_id|> |
/// | plain  | ROLE:, line end, CONTENT, line end: without special tokens                                         |
inline constexpr std::array<std::string_view, 3> chat_template_names{"chatml", "llama3", "plain"};

/// Returns the chat template of a name. Throws OptionError for another name, with those that there are.
///
/// \code
/// const data::ChatTemplate form = data::chat_template("chatml");
/// const std::string text = form.text_of({{"user", "2 + 2?"}, {"assistant", "4", true}});
/// \endcode
ChatTemplate chat_template(std::string_view name);

/// Returns the known chat template to which the chat_template of a model's folder corresponds: that of
/// chat_template.jinja, or the member of tokenizer_config.json. The Jinja is not run: a known template is recognised by
/// its special tokens, <|im_start|> and <|im_end|> for chatml, or <|start_header_id|>, <|end_header_id|> and <|eot_id|>
/// for llama3.
///
/// Throws FileError, DecodeError for a malformed file, for a folder without a chat_template and for one that is not
/// known, with the fix: to name a template.
///
/// Deviation: what else the Jinja may do is not done, such as a system message of its own where a conversation has
/// none.
ChatTemplate read_chat_template(const std::filesystem::path& folder);

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/chat_template.ipp>
#endif
