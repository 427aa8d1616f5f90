// Messages of sessions as bytes: what is written is read again, and what is none is refused.

#include <reef/swarm/core/session_wire.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>

namespace reef::swarm {
namespace {

Bulk some_rows(std::size_t count) { return std::make_shared<const std::vector<std::byte>>(count, std::byte{7}); }

std::vector<SessionMessage> session_messages() {
  SessionStep step{"s.1", 3, 7, 12, {1, 0}, 2, true, true, {{"b/1f", "s.2", true, false}}, some_rows(96)};
  return {OpenSession{"s.1", 3, "m", {2, 5}, 2, 64, 6},
          step,
          SessionStep{"s.1", 1, 1, 0, {}, 1, false, false, {}, some_rows(8)},
          StepDone{"s.1", 3, 7, 0xFFFFFFFF, some_rows(16)},
          SessionRefused{"s.1", 3, 0, SessionRefusal::evicted},
          SessionRefused{"s.1", 3, 7, SessionRefusal::malformed},
          SessionEpoch{"s.1", 4, 7},
          SessionReady{"s.1", 4, 14},
          CloseSession{"s.1"}};
}

/// Equal but for rows, which are compared by their bytes.
bool are_equal(SessionMessage a, SessionMessage b) {
  const auto rows_of = [](SessionMessage& message) {
    Bulk rows;
    if (auto* const step = std::get_if<SessionStep>(&message)) rows.swap(step->bytes);
    if (auto* const done = std::get_if<StepDone>(&message)) rows.swap(done->bytes);
    return rows ? *rows : std::vector<std::byte>();
  };
  return rows_of(a) == rows_of(b) && a == b;
}

std::vector<std::byte> bytes_of(std::string_view text, std::size_t length) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>((length >> (8 * i)) & 255));
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

TEST(SessionWire, what_is_written_is_read_again) {
  for (const SessionMessage& message : session_messages())
    EXPECT_TRUE(are_equal(session_message_of(to_bytes(message)), message)) << message.index();
}

TEST(SessionWire, what_is_no_message_is_refused) {
  EXPECT_THROW(session_message_of({}), DecodeError);
  EXPECT_THROW(session_message_of(bytes_of("{}", 2)), DecodeError);
  EXPECT_THROW(session_message_of(bytes_of(R"({"close":"s"})", 14)), DecodeError);
  EXPECT_THROW(session_message_of(bytes_of(R"({"close":"s"}x)", 13)), DecodeError);
  EXPECT_THROW(session_message_of(bytes_of(R"({"close":5})", 11)), DecodeError);
  EXPECT_THROW(session_message_of(bytes_of(R"({"enter":"s","epoch":-1,"step":1})", 33)), DecodeError);
  EXPECT_THROW(session_message_of(bytes_of(R"({"refused":"s","epoch":1,"step":1,"why":"x"})", 44)), DecodeError);
}

TEST(SessionWire, cut_and_changed_bytes_are_read_or_refused) {
  std::mt19937 random(5);
  for (const SessionMessage& message : session_messages()) {
    const std::vector<std::byte> whole = to_bytes(message);
    for (int attempt = 0; attempt < 300; ++attempt) {
      std::vector<std::byte> bytes = whole;
      if (attempt % 2 == 0) bytes.resize(random() % bytes.size());
      if (!bytes.empty()) bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 256);
      try {
        session_message_of(bytes);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace reef::swarm
