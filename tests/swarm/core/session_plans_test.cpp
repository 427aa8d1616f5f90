// Sessions over servers that fail, in drawn plans: what a client accepts has the bits of one cache that computes alone.
//
// REEF_SESSION_PLANS: how many plans are drawn, 1000 if it is not set.

#include "simulated_sessions.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

namespace reef::swarm::core::simulated {
namespace {

std::string to_text(const SessionPlan& plan) {
  std::string text = concat("seed ", plan.seed);
  for (const SessionFault& fault : plan.faults) {
    text += concat("\n  trouble ", static_cast<int>(fault.trouble), " of v", fault.server,
                   fault.in_repair ? " in a repair" : concat(" in step ", fault.step), ", ",
                   fault.seconds, " s");
  }
  return text;
}

TEST(SessionPlans, without_failures_give_the_rows_of_one_cache_and_no_repair) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SimulatedSession session({seed, {}});
    ASSERT_EQ(session.run(), "") << "seed " << seed;
    EXPECT_EQ(session.repairs(), 0) << "seed " << seed;
  }
}

TEST(SessionPlans, of_servers_that_drain_end_without_a_repair_and_without_a_ban) {
  std::int64_t drained = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const SessionFault drain{Trouble::drain, static_cast<int>(seed % servers),
                             1 + static_cast<std::int64_t>(seed % 5)};
    SimulatedSession session({seed, {drain}}, seed % 2 == 0);
    ASSERT_EQ(session.run(), "") << "seed " << seed;
    EXPECT_EQ(session.repairs(), 0) << "seed " << seed;
    EXPECT_EQ(session.bans(), 0) << "seed " << seed;
    drained += session.drained();
  }
  EXPECT_GT(drained, 30);
}

TEST(SessionPlans, of_failures_give_the_rows_of_one_cache) {
  const char* const wanted = std::getenv("REEF_SESSION_PLANS");
  const std::uint64_t plans = wanted == nullptr ? 1000 : std::strtoull(wanted, nullptr, 10);
  std::int64_t repairs = 0;
  std::int64_t replays = 0;
  std::int64_t bans = 0;
  std::int64_t moves = 0;
  std::int64_t drained = 0;
  for (std::uint64_t seed = 1; seed <= plans; ++seed) {
    const SessionPlan plan = drawn_session_plan(seed);
    SimulatedSession session(plan);
    ASSERT_EQ(session.run(), "") << to_text(plan);
    repairs += session.repairs();
    replays += session.replayed();
    bans += session.bans();
    moves += session.moves();
    drained += session.drained();
  }
  std::printf("%llu plans: %lld repairs, %lld replays, %lld servers avoided, %lld moves, %lld servers drained\n",
              static_cast<unsigned long long>(plans), static_cast<long long>(repairs),
              static_cast<long long>(replays), static_cast<long long>(bans), static_cast<long long>(moves),
              static_cast<long long>(drained));
  EXPECT_GT(repairs, static_cast<std::int64_t>(plans / 4));
  EXPECT_GT(moves, static_cast<std::int64_t>(plans / 2));
  EXPECT_GT(drained, static_cast<std::int64_t>(plans / 20));
}

}  // namespace
}  // namespace reef::swarm::core::simulated
