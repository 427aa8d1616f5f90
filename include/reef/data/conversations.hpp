#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/data/chat_template.hpp>
#include <reef/data/pairs.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// A conversation, and its place "FILE, line N" for errors.
struct Conversation {
  std::vector<Message> messages;
  std::string source;
};

/// Returns true if the first line of a file that is not empty is a JSON object with the member "messages".
bool is_of_conversations(const std::filesystem::path& file);

/// Reads a file of conversations: each line is a JSON object with the list "messages" of objects with the texts "role",
/// which is system, user or assistant, and "content". Other members, and empty lines, are ignored, but for "weight" of
/// an assistant's message: 0 takes what that message says out of the loss, 1 leaves it there.
///
/// Throws FileError if the file cannot be read; DecodeError with the file, the line and the member for anything else,
/// for no messages, content without a letter, no message of an assistant whose weight is not 0, and for a file without
/// conversations.
std::vector<Conversation> read_conversations(const std::filesystem::path& file);

/// An encoder that writes conversations as tokens in the form of a chat template.
///
///     targets: of each judged message its content and the end of its turn: turn_end, or without one the separator
///
/// | apart  | special tokens are looked up by name; text between them is encoded by itself, as is judged content, |
/// |        | by `encode_more` where text stands in front of it                                                   |
/// | safe   | no content becomes a special token of the template: a tokenizer that makes one of it is refused    |
/// | errors | OptionError for a special token that the tokenizer lacks; DecodeError with Conversation::source    |
///
/// \code
/// #include <reef/data/tokenizer_json.hpp>
/// const auto tokenizer = data::TokenizerJson::read("model/tokenizer.json", {.finds_added = false});
/// const data::ConversationEncoder encoder(
///     data::chat_template("chatml"), [&](std::string_view text) { return tokenizer.encode(text); },
///     [&](std::string_view name) { return tokenizer.find(name); });
/// std::vector<data::TokenPair> pairs;
/// for (const auto& talk : data::read_conversations("talks.jsonl")) pairs.push_back(encoder.encode(talk));
/// \endcode
class ConversationEncoder {
public:
  /// A function that encodes text as tokens; the names of special tokens in it are plain characters.
  using Encode = std::function<std::vector<std::int32_t>(std::string_view text)>;
  /// A function that returns the special token of a name, or nothing.
  using Find = std::function<std::optional<std::int32_t>(std::string_view name)>;

  /// `encode_more` encodes text that continues text; without it such text is encoded by `encode`, which is the same for
  /// a tokenizer that puts no space in front of a text.
  ConversationEncoder(ChatTemplate form, Encode encode, const Find& find, Encode encode_more = nullptr);

  /// Returns the tokens of a conversation: those before the first judged content (which a model learns to write) are
  /// TokenPair::prompt, those between judged ones are TokenPair::skipped.
  [[nodiscard]] TokenPair encode(const Conversation& conversation) const;

private:
  struct Part;

  /// Returns the parts of a conversation (special tokens and texts) in their order; texts that are encoded together are
  /// one.
  [[nodiscard]] std::vector<Part> parts_of(const Conversation& conversation) const;
  [[nodiscard]] std::int32_t token(std::string_view name) const;

  ChatTemplate form_;
  Encode encode_;
  Encode encode_more_;
  std::vector<std::pair<std::string, std::int32_t>> special_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/conversations.ipp>
#endif
