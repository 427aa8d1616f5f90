#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/core/session_wire.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

inline constexpr Bytes max_session_text = 64_KiB;
inline constexpr std::size_t max_session_hops = 256;

/// The JSON object of each message; `rows` is set to what goes behind the text.
inline io::Json json_of_session(const OpenSession& m, Bulk& /*rows*/) {
  return {{"open", m.session},        {"epoch", m.epoch},           {"model", m.model}, {"first", m.blocks.first},
          {"last", m.blocks.last},    {"batch", m.batch},           {"step", m.step},   {"max_length", m.max_length}};
}
inline io::Json json_of_session(const SessionStep& m, Bulk& rows) {
  rows = m.bytes;
  io::Json next = io::Json::array();
  for (const NextHop& hop : m.next) {
    next.push_back({{"server", hop.server},
                    {"session", hop.session},
                    {"whole", hop.whole},
                    {"answers_whole", hop.answers_whole}});
  }
  return {{"do", m.session}, {"epoch", m.epoch},     {"step", m.step},   {"keep", m.keep},
          {"rows", m.rows},  {"reorder", m.reorder}, {"whole", m.whole}, {"answers_whole", m.answers_whole},
          {"next", std::move(next)}};
}
inline io::Json json_of_session(const StepDone& m, Bulk& rows) {
  rows = m.bytes;
  return {{"done", m.session}, {"epoch", m.epoch}, {"step", m.step}, {"input", m.input}};
}
inline io::Json json_of_session(const SessionRefused& m, Bulk& /*rows*/) {
  return {{"refused", m.session}, {"epoch", m.epoch}, {"step", m.step}, {"why", std::string(name_of(m.why))}};
}
inline io::Json json_of_session(const SessionEpoch& m, Bulk& /*rows*/) {
  return {{"enter", m.session}, {"epoch", m.epoch}, {"step", m.step}};
}
inline io::Json json_of_session(const SessionReady& m, Bulk& /*rows*/) {
  return {{"ready", m.session}, {"epoch", m.epoch}, {"length", m.length}};
}
inline io::Json json_of_session(const CloseSession& m, Bulk& /*rows*/) { return {{"close", m.session}}; }

/// Reads members of one message's JSON object.
class SessionFields {
public:
  explicit SessionFields(const io::Json& json) : json_(json) {}

  [[nodiscard]] bool is(const char* kind) const { return json_.contains(kind); }
  [[nodiscard]] std::string text(const char* name) const {
    std::string text = io::require<std::string>(json_, name, source);
    constexpr std::size_t most = 256;
    if (text.size() > most) refuse(name);
    return text;
  }
  /// Returns a number from 0 on.
  [[nodiscard]] std::int64_t number(const char* name) const {
    const auto number = io::require<std::int64_t>(json_, name, source);
    constexpr std::int64_t most = std::int64_t{1} << 48;
    if (number < 0 || number > most) refuse(name);
    return number;
  }
  [[nodiscard]] bool flag(const char* name) const { return io::require<bool>(json_, name, source); }
  [[nodiscard]] std::vector<std::int64_t> order(const char* name) const {
    auto order = io::require<std::vector<std::int64_t>>(json_, name, source);
    if (std::ssize(order) > max_session_batch) refuse(name);
    return order;
  }
  [[nodiscard]] std::vector<NextHop> hops(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_array() || found->size() > max_session_hops) refuse(name);
    std::vector<NextHop> hops;
    for (const io::Json& one : *found) {
      if (!one.is_object()) refuse(name);
      const SessionFields hop(one);
      hops.push_back({hop.text("server"), hop.text("session"), hop.flag("whole"), hop.flag("answers_whole")});
    }
    return hops;
  }
  [[nodiscard]] SessionRefusal refusal(const char* name) const {
    const std::string text = this->text(name);
    for (int i = 0; i <= static_cast<int>(SessionRefusal::malformed); ++i) {
      if (name_of(static_cast<SessionRefusal>(i)) == text) return static_cast<SessionRefusal>(i);
    }
    refuse(name);
  }
  [[noreturn]] static void refuse(const char* name) {
    throw DecodeError("reef::swarm: ", source, " has an '", name,
                      "' that cannot be.\n  fix: a peer of the same version.");
  }

  static constexpr const char* source = "a message of a session";

private:
  const io::Json& json_;
};

}  // namespace detail

REEF_INLINE std::vector<std::byte> to_bytes(const SessionMessage& message) {
  Bulk rows;
  const std::string text = std::visit([&](const auto& m) { return detail::json_of_session(m, rows).dump(); }, message);
  const Bytes behind = rows ? rows->size() : 0;
  std::vector<std::byte> bytes(4 + text.size() + behind);
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>((text.size() >> (8 * i)) & 255);
  std::memcpy(bytes.data() + 4, text.data(), text.size());
  if (behind > 0) std::memcpy(bytes.data() + 4 + text.size(), rows->data(), behind);
  return bytes;
}

REEF_INLINE SessionMessage session_message_of(std::span<const std::byte> bytes) {
  const auto refuse = [](const char* why) {
    throw DecodeError("reef::swarm: bytes that are no message of a session: ", why,
                      ".\n  fix: a peer of the same version.");
  };
  if (bytes.size() < 4) refuse("they have no length");
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length |= std::to_integer<std::size_t>(bytes[i]) << (8 * i);
  if (length > detail::max_session_text || length > bytes.size() - 4) refuse("the text is longer than they are");
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + 4, length);
  const std::span<const std::byte> behind = bytes.subspan(4 + length);
  const io::Json json =
      io::parse_json(text, detail::SessionFields::source, {.bytes = detail::max_session_text, .depth = 4});
  if (!json.is_object()) refuse("the text is no JSON object");
  const detail::SessionFields fields(json);
  const bool has_rows = fields.is("do") || fields.is("done");
  if (!has_rows && !behind.empty()) refuse("rows stand behind a message that has none");
  const auto rows = [&] { return std::make_shared<const std::vector<std::byte>>(behind.begin(), behind.end()); };
  if (fields.is("do")) {
    return SessionStep{fields.text("do"),     fields.number("epoch"),      fields.number("step"),
                       fields.number("keep"), fields.order("reorder"),     fields.number("rows"),
                       fields.flag("whole"),  fields.flag("answers_whole"), fields.hops("next"),
                       rows()};
  }
  if (fields.is("done")) {
    const std::int64_t input = fields.number("input");
    if (input > 0xFFFFFFFF) detail::SessionFields::refuse("input");
    return StepDone{fields.text("done"), fields.number("epoch"), fields.number("step"),
                    static_cast<std::uint32_t>(input), rows()};
  }
  if (fields.is("open")) {
    return OpenSession{fields.text("open"),
                       fields.number("epoch"),
                       fields.text("model"),
                       {fields.number("first"), fields.number("last")},
                       fields.number("batch"),
                       fields.number("max_length"),
                       fields.number("step")};
  }
  if (fields.is("refused"))
    return SessionRefused{fields.text("refused"), fields.number("epoch"), fields.number("step"), fields.refusal("why")};
  if (fields.is("enter")) return SessionEpoch{fields.text("enter"), fields.number("epoch"), fields.number("step")};
  if (fields.is("ready")) return SessionReady{fields.text("ready"), fields.number("epoch"), fields.number("length")};
  if (!fields.is("close")) refuse("the text names no kind of message");
  return CloseSession{fields.text("close")};
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
