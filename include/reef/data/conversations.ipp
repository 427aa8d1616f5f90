#pragma once

#include <algorithm>
#include <cstddef>
#include <fstream>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/data/conversations.hpp>
#include <reef/data/json_lines.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

/// Returns a message of a line. Throws DecodeError.
inline Message message_of(const io::Json& json, const std::string& source) {
  io::require_object(json, "messages", source);
  Message message{io::require<std::string>(json, "role", source), io::require<std::string>(json, "content", source)};
  const bool known = message.role == "system" || message.role == "user" || message.role == "assistant";
  if (!known) {
    throw DecodeError(
        "reef::data: ", source, ": the role is ", in_quotes(message.role), ".\n",
        "  why: a model is told system, user and assistant apart.\n  fix: one of these, or leave the line out.");
  }
  if (message.content.find_first_not_of(" \t\n\r\v\f") == std::string::npos) {
    throw DecodeError("reef::data: ", source, ": the content is empty.\n  fix: leave the message out, or the line.");
  }
  message.judged = message.role == "assistant";
  if (!json.contains("weight")) return message;
  const auto weight = io::require<double>(json, "weight", source);
  if (weight != 0 && weight != 1) {
    throw DecodeError("reef::data: ", source, ": weight is ", weight,
                      ".\n  why: a message is in the loss or not.\n  fix: 0 or 1.");
  }
  message.judged = message.judged && weight == 1;
  return message;
}

}  // namespace detail

REEF_INLINE bool is_of_conversations(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  for (std::string line; std::getline(stream, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const io::Json json = io::Json::parse(line, nullptr, false);
    return json.is_object() && json.contains("messages");
  }
  return false;
}

REEF_INLINE std::vector<Conversation> read_conversations(const std::filesystem::path& file) {
  std::vector<Conversation> conversations;
  for_each_json_line(file, [&](const io::Json& json, const std::string& source) {
    Conversation conversation{{}, source};
    const auto messages = io::require<std::vector<io::Json>>(json, "messages", source);
    for (std::size_t i = 0; i < messages.size(); ++i)
      conversation.messages.push_back(detail::message_of(messages[i], concat(source, ", message ", i + 1)));
    if (messages.empty())
      throw DecodeError("reef::data: ", source, ": there are no messages.\n  fix: leave the line out.");
    if (std::none_of(conversation.messages.begin(), conversation.messages.end(),
                     [](const Message& m) { return m.judged; })) {
      throw DecodeError("reef::data: ", source, ": no message is of the assistant, with a weight that is not 0.\n",
                        "  why: the loss is of what the assistant says alone.\n  fix: leave the line out.");
    }
    conversations.push_back(std::move(conversation));
  });
  if (conversations.empty()) {
    throw DecodeError(
        "reef::data: ", file.string(), " has no conversations.\n  fix: lines such as {\"messages\": ",
        "[{\"role\": \"user\", \"content\": \"2 + 2?\"}, {\"role\": \"assistant\", \"content\": \"4\"}]}.");
  }
  return conversations;
}

/// A part of a template's text: a special token by its name, or text.
struct ConversationEncoder::Part {
  std::string text;
  bool special;
  bool judged;
};

REEF_INLINE ConversationEncoder::ConversationEncoder(ChatTemplate form, Encode encode, const Find& find,
                                                      Encode encode_more)
    : form_(std::move(form)),
      encode_(std::move(encode)),
      encode_more_(encode_more != nullptr ? std::move(encode_more) : encode_) {
  for (const std::string& name : {form_.begin, form_.role_begin, form_.role_end, form_.turn_end}) {
    if (name.empty()) continue;
    const std::optional<std::int32_t> token = find(name);
    if (!token) {
      throw OptionError("reef::data::ConversationEncoder: the tokenizer has no token ", in_quotes(name),
                        ", which the template ", form_.name,
                        " has.\n  fix: the tokenizer of a model that knows the template, or the template plain.");
    }
    special_.emplace_back(name, *token);
  }
}

REEF_INLINE std::int32_t ConversationEncoder::token(std::string_view name) const {
  return std::find_if(special_.begin(), special_.end(), [&](const auto& own) { return own.first == name; })->second;
}

REEF_INLINE std::vector<ConversationEncoder::Part> ConversationEncoder::parts_of(
    const Conversation& conversation) const {
  std::vector<Part> parts;
  const auto special = [&](const std::string& name, bool judged) {
    if (!name.empty()) parts.push_back({name, true, judged});
  };
  const auto text = [&](std::string_view more, bool judged) {
    if (more.empty()) return;
    if (!parts.empty() && !parts.back().special && parts.back().judged == judged) {
      parts.back().text += more;
    } else {
      parts.push_back({std::string(more), false, judged});
    }
  };
  special(form_.begin, false);
  for (const Message& message : conversation.messages) {
    special(form_.role_begin, false);
    text(message.role, false);
    special(form_.role_end, false);
    text(form_.header, false);
    text(form_.content_of(message), message.judged);
    special(form_.turn_end, message.judged);
    text(form_.separator, message.judged && form_.turn_end.empty());
  }
  return parts;
}

REEF_INLINE TokenPair ConversationEncoder::encode(const Conversation& conversation) const {
  TokenPair pair;
  bool found = false;
  bool behind_text = false;
  for (const Part& part : parts_of(conversation)) {
    const std::vector<std::int32_t> tokens = part.special  ? std::vector<std::int32_t>{token(part.text)}
                                             : behind_text ? encode_more_(part.text)
                                                           : encode_(part.text);
    behind_text = !part.special;
    for (const auto& [name, id] : special_) {
      if (part.special || std::find(tokens.begin(), tokens.end(), id) == tokens.end()) continue;
      throw DecodeError("reef::data: ", conversation.source, ": the tokenizer makes the special token ",
                        in_quotes(name),
                        " of text.\n  why: what a message says could end its turn, and begin another's.\n",
                        "  fix: leave the line out, or a tokenizer for which that name is characters.");
    }
    const std::size_t begin = pair.tokens.size();
    pair.tokens.insert(pair.tokens.end(), tokens.begin(), tokens.end());
    const std::size_t end = pair.tokens.size();
    if (begin == end) continue;
    if (part.judged) {
      if (!found) pair.prompt = begin;
      found = true;
    } else if (found && !pair.skipped.empty() && pair.skipped.back().end == begin) {
      pair.skipped.back().end = end;
    } else if (found) {
      pair.skipped.push_back({begin, end});
    }
  }
  if (found) return pair;
  throw DecodeError("reef::data: ", conversation.source, ": no message is judged.\n  why: there is nothing to learn.\n",
                    "  fix: leave the conversation out.");
}

}  // namespace data
}  // namespace v0
}  // namespace reef
