// A client's side of sessions: whose fault a refusal is, and what a move between two steps asks of servers.

#include <reef/swarm/core/session_client.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/io/checksum.hpp>

namespace reef::swarm::core {
namespace {

using ClientActions = SessionClient::Actions;

Bulk client_rows(std::int64_t count) {
  return std::make_shared<const std::vector<std::byte>>(static_cast<std::size_t>(count) * 8);
}

/// A client of two servers, a of blocks 0 and 1, b of blocks 2 and 3, whose sessions are open: "s.1" and "s.2".
SessionClient client_of_two() {
  SessionClient client({.session = "s", .model = "m", .blocks = 4, .max_length = 64, .row = 8});
  client.begin(0, {}, 2, client_rows(2), 0);
  client.routed({0, 4}, {{"a", {0, 2}}, {"b", {2, 4}}}, 0);
  client.receive("a", SessionReady{"s.1", client.epoch(), 0}, 0);
  client.receive("b", SessionReady{"s.2", client.epoch(), 0}, 0);
  return client;
}

StepDone done_of(const std::string& session, std::int64_t epoch) {
  return {session, epoch, 1, io::crc32c(*client_rows(2)), client_rows(2)};
}

template <class Action>
std::vector<Action> all_of(const ClientActions& actions) {
  std::vector<Action> found;
  for (const ask::Action& action : actions) {
    if (const auto* const one = std::get_if<Action>(&action)) found.push_back(*one);
  }
  return found;
}

/// What is sent, as "server message session".
std::vector<std::string> sent_of(const ClientActions& actions) {
  static constexpr const char* kinds[] = {"opens", "steps", "done", "refused", "enters", "ready", "closes"};
  std::vector<std::string> sent;
  for (const auto& send : all_of<ask::Send>(actions)) {
    const std::string session = std::visit([](const auto& message) { return message.session; }, send.message);
    sent.push_back(concat(send.to, " ", kinds[send.message.index()], " ", session));
  }
  return sent;
}

TEST(SessionClient, takes_a_refusal_for_the_servers_fault_or_for_nobodys) {
  const auto why_of = [](SessionRefusal refusal) {
    SessionClient client = client_of_two();
    const ClientActions actions = client.receive("b", SessionRefused{"s.2", client.epoch(), 1, refusal}, 1);
    const auto routes = all_of<ask::Route>(actions);
    EXPECT_EQ(routes.size(), 1u) << name_of(refusal);
    EXPECT_EQ(routes.at(0).failed, "b");
    EXPECT_EQ(routes.at(0).blocks, (BlockRange{2, 4}));
    EXPECT_TRUE(all_of<ask::Failed>(actions).empty());
    return routes.at(0).why;
  };
  EXPECT_EQ(why_of(SessionRefusal::evicted), HopFailure::evicted);
  EXPECT_EQ(why_of(SessionRefusal::overload), HopFailure::overload);
  for (const SessionRefusal refusal : {SessionRefusal::room, SessionRefusal::model, SessionRefusal::unknown,
                                       SessionRefusal::draining, SessionRefusal::epoch})
    EXPECT_EQ(why_of(refusal), HopFailure::refused) << name_of(refusal);
}

TEST(SessionClient, ends_by_an_error_of_its_own_and_blames_nobody) {
  for (const SessionRefusal refusal : {SessionRefusal::malformed, SessionRefusal::step}) {
    SessionClient client = client_of_two();
    const ClientActions actions = client.receive("a", SessionRefused{"s.1", client.epoch(), 1, refusal}, 1);
    EXPECT_TRUE(all_of<ask::Route>(actions).empty()) << name_of(refusal);
    ASSERT_EQ(all_of<ask::Failed>(actions).size(), 1u) << name_of(refusal);
    EXPECT_THAT(all_of<ask::Failed>(actions)[0].why, testing::HasSubstr("an error of this client"));
  }
}

TEST(SessionClient, hears_of_refusals_between_two_steps) {
  SessionClient client = client_of_two();
  client.receive("a", done_of("s.1", client.epoch()), 1);
  client.receive("b", done_of("s.2", client.epoch()), 1);
  ASSERT_TRUE(client.can_move());
  client.move({{"a", {0, 2}}, {"c", {2, 4}}}, 2);
  const auto routes =
      all_of<ask::Route>(client.receive("c", SessionRefused{"s.3", client.epoch(), 0, SessionRefusal::draining}, 2));
  ASSERT_EQ(routes.size(), 1u);
  EXPECT_EQ(routes[0].failed, "c");
}

TEST(SessionClient, moves_between_two_steps_and_leaves_what_stays_as_it_is) {
  SessionClient client = client_of_two();
  const std::int64_t epoch = client.epoch();
  EXPECT_FALSE(client.can_move());
  EXPECT_TRUE(client.move({{"c", {0, 4}}}, 1).empty()) << "a step is in progress";
  client.receive("a", done_of("s.1", epoch), 1);
  EXPECT_EQ(all_of<ask::Accepted>(client.receive("b", done_of("s.2", epoch), 1)).size(), 1u);
  EXPECT_TRUE(client.move({{"a", {0, 2}}, {"b", {2, 4}}}, 2).empty()) << "the same chain";
  EXPECT_TRUE(client.move({{"a", {0, 2}}, {"b", {2, 3}}}, 2).empty()) << "not all blocks";
  EXPECT_EQ(client.epoch(), epoch);
  const ClientActions actions = client.move({{"a", {0, 2}}, {"c", {2, 3}}, {"b", {3, 4}}}, 2);
  EXPECT_THAT(sent_of(actions), testing::ElementsAre("b closes s.2", "a enters s.1", "c opens s.3", "b opens s.4"));
  EXPECT_EQ(client.epoch(), epoch + 1);
  EXPECT_EQ(client.moves(), 1);
  EXPECT_EQ(client.repairs(), 0);
  EXPECT_FALSE(client.can_move()) << "nobody is ready";
  client.receive("a", SessionReady{"s.1", epoch + 1, 2}, 3);
  client.receive("c", SessionReady{"s.3", epoch + 1, 0}, 3);
  client.receive("b", SessionReady{"s.4", epoch + 1, 0}, 3);
  ASSERT_TRUE(client.can_move());
  // The server that stays gets the new row alone; the one behind gets all three, and says them on.
  const auto first = all_of<ask::Send>(client.begin(2, {}, 1, client_rows(1), 4));
  ASSERT_EQ(first.size(), 1u);
  const auto& step = std::get<SessionStep>(first[0].message);
  EXPECT_EQ(first[0].to, "a");
  EXPECT_FALSE(step.whole);
  EXPECT_TRUE(step.next.empty());
  const auto second = all_of<ask::Send>(
      client.receive("a", StepDone{"s.1", epoch + 1, 2, io::crc32c(*client_rows(1)), client_rows(1)}, 5));
  ASSERT_EQ(second.size(), 1u);
  const auto& replay = std::get<SessionStep>(second[0].message);
  EXPECT_EQ(second[0].to, "c");
  EXPECT_TRUE(replay.whole);
  EXPECT_TRUE(replay.answers_whole);
  EXPECT_EQ(replay.bytes->size(), 3u * 8);
  ASSERT_EQ(replay.next.size(), 1u);
  EXPECT_EQ(replay.next[0], (NextHop{"b", "s.4", true, false}));
}

}  // namespace
}  // namespace reef::swarm::core
