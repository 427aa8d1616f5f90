// A server's side of sessions: what it takes, answers again, refuses, and how it counts its pages.

#include <reef/swarm/core/session_server.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace reef::swarm::core {
namespace {

using SessionActions = std::vector<serve::Action>;

constexpr Bytes row = 8;

Bulk rows_of(std::int64_t count, int value) {
  return std::make_shared<const std::vector<std::byte>>(static_cast<std::size_t>(count) * row,
                                                        static_cast<std::byte>(value));
}

SessionServer server_of(std::int64_t positions) {
  return SessionServer(
      {.model = "m", .blocks = {0, 3}, .row = row, .positions = positions, .page = 64});
}

OpenSession open_of(const std::string& session, BlockRange blocks, std::int64_t max_length = 64) {
  return {session, 1, "m", blocks, 1, max_length, 0};
}

SessionStep step_of(std::int64_t number, std::int64_t keep, std::int64_t rows) {
  SessionStep step{"s", 1, number, keep};
  step.rows = rows;
  step.bytes = rows_of(rows, static_cast<int>(number));
  return step;
}

/// The reason of the first refusal among actions.
std::optional<SessionRefusal> refusal_of(const SessionActions& actions) {
  for (const serve::Action& action : actions) {
    const auto* const send = std::get_if<serve::Send>(&action);
    const auto* const refused =
        send == nullptr ? nullptr : std::get_if<SessionRefused>(&send->message);
    if (refused != nullptr) return refused->why;
  }
  return {};
}

template <class Action>
std::int64_t count_of(const SessionActions& actions) {
  std::int64_t count = 0;
  for (const serve::Action& action : actions)
    count += std::holds_alternative<Action>(action) ? 1 : 0;
  return count;
}

TEST(SessionServer, counts_the_pages_of_a_sessions_own_blocks_alone) {
  // One page of each of three blocks: a chain that repairs have cut to single blocks finds room as an uncut one does.
  SessionServer server = server_of(64);
  for (std::int64_t block = 0; block < 3; ++block)
    EXPECT_EQ(
        refusal_of(server.receive(
            "c", open_of(std::string(1, static_cast<char>('a' + block)), {block, block + 1}), 0)),
        std::nullopt)
        << "block " << block;
  EXPECT_EQ(server.pages(), 3);
  EXPECT_EQ(refusal_of(server.receive("c", open_of("d", {1, 2}), 0)), SessionRefusal::room);
  EXPECT_EQ(count_of<serve::CloseCache>(server.receive("c", CloseSession{"b"}, 0)), 1);
  EXPECT_EQ(refusal_of(server.receive("c", open_of("d", {1, 2}), 0)), std::nullopt);
  EXPECT_EQ(refusal_of(server.receive("c", open_of("e", {0, 3}), 0)), SessionRefusal::room);
}

TEST(SessionServer, refuses_what_it_cannot_serve) {
  SessionServer server = server_of(128);
  OpenSession other = open_of("s", {0, 3});
  other.model = "n";
  EXPECT_EQ(refusal_of(server.receive("c", other, 0)), SessionRefusal::model);
  EXPECT_EQ(refusal_of(server.receive("c", open_of("s", {2, 4}), 0)), SessionRefusal::model);
  EXPECT_EQ(refusal_of(server.receive("c", open_of("s", {0, 3}, 129), 0)), SessionRefusal::room);
  EXPECT_EQ(refusal_of(server.receive("c", open_of("s", {0, 3}, std::int64_t{1} << 50), 0)),
            SessionRefusal::malformed);
  EXPECT_EQ(refusal_of(server.receive("c", step_of(1, 0, 2), 0)), SessionRefusal::unknown);
  EXPECT_EQ(server.pages(), 0);
}

TEST(SessionServer, takes_the_next_step_once_and_answers_the_last_again) {
  SessionServer server = server_of(64);
  server.receive("c", open_of("s", {0, 3}), 0);
  EXPECT_EQ(count_of<serve::Run>(server.receive("c", step_of(1, 0, 2), 0)), 1);
  EXPECT_TRUE(
      server.receive("c", step_of(1, 0, 2), 0).empty());  // waits for the step that is computed
  const SessionActions answers = server.computed("s", rows_of(2, 7), 0);
  EXPECT_EQ(count_of<serve::Run>(answers), 0);
  EXPECT_EQ(count_of<serve::Send>(answers), 2);
  EXPECT_EQ(refusal_of(answers), std::nullopt);
  EXPECT_EQ(refusal_of(server.receive("c", step_of(3, 2, 1), 0)), SessionRefusal::step);
  EXPECT_EQ(refusal_of(server.receive("c", step_of(2, 3, 1), 0)),
            SessionRefusal::malformed);  // of 2 positions
  SessionStep later = step_of(2, 2, 1);
  later.epoch = 2;
  EXPECT_EQ(refusal_of(server.receive("c", later, 0)), SessionRefusal::epoch);
}

TEST(SessionServer, undoes_at_a_new_epoch_what_the_client_has_not_accepted) {
  SessionServer server = server_of(64);
  server.receive("c", open_of("s", {0, 3}), 0);
  server.receive("c", step_of(1, 0, 4), 0);
  server.computed("s", rows_of(4, 7), 0);
  server.receive("c", step_of(2, 3, 2), 0);
  server.computed("s", rows_of(2, 8), 0);
  const SessionActions actions = server.receive("c", SessionEpoch{"s", 2, 1}, 0);
  ASSERT_EQ(count_of<serve::CutCache>(actions), 1);
  EXPECT_EQ(std::get<serve::CutCache>(actions.front()).length, 3);
  EXPECT_EQ(refusal_of(server.receive("c", step_of(2, 3, 2), 0)),
            SessionRefusal::epoch);  // a copy from before
  SessionStep again = step_of(2, 3, 2);
  again.epoch = 2;
  EXPECT_EQ(count_of<serve::Run>(server.receive("c", again, 0)), 1);
}

TEST(SessionServer, tells_of_an_eviction_and_lets_nobody_else_end_a_session) {
  SessionServer server = server_of(64);
  server.receive("c", open_of("s", {0, 3}), 0);
  EXPECT_TRUE(server.receive("d", CloseSession{"s"}, 0).empty());
  EXPECT_EQ(server.sessions(), 1u);
  EXPECT_EQ(count_of<serve::CloseCache>(server.evict("s")), 1);
  EXPECT_EQ(server.pages(), 0);
  EXPECT_EQ(refusal_of(server.receive("c", step_of(1, 0, 1), 0)), SessionRefusal::evicted);
  EXPECT_EQ(refusal_of(server.receive("c", SessionEpoch{"s", 2, 0}, 0)), SessionRefusal::evicted);
}

TEST(SessionServer, closes_sessions_that_nobody_uses) {
  SessionServer server = server_of(64);
  server.receive("c", open_of("s", {0, 3}), 0);
  EXPECT_TRUE(server.tick(600).empty());
  EXPECT_EQ(count_of<serve::CloseCache>(server.tick(601)), 1);
  EXPECT_EQ(server.sessions(), 0u);
  EXPECT_EQ(server.pages(), 0);
}

}  // namespace
}  // namespace reef::swarm::core
