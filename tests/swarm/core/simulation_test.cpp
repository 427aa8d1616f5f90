#include <reef/swarm/core/simulation.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include <reef/core/text.hpp>

namespace reef::swarm::core {
namespace {

std::uint64_t plans() {
  const char* const wanted = std::getenv("REEF_SWARM_PLANS");
  return wanted == nullptr ? 1500 : std::strtoull(wanted, nullptr, 10);
}

TEST(Simulation, keeps_all_laws_in_drawn_plans) {
  SimulationResult sum;
  for (std::uint64_t seed = 1; seed <= plans(); ++seed) {
    const FaultPlan plan = drawn_plan(seed);
    const SimulationResult result = simulate(plan);
    if (!result.violation.empty()) {
      ADD_FAILURE() << report_of_violation(plan);
      return;
    }
    sum += result;
  }
  RecordProperty("events", concat(sum.events));
  EXPECT_GT(sum.views, static_cast<std::int64_t>(plans())) << "members came and went";
  if (plans() < 1000) return;  // too few for what is rare
  EXPECT_GT(sum.excluded, static_cast<std::int64_t>(plans() / 20)) << "some contributions came too late";
  EXPECT_GT(sum.quarantined, 0) << "some gradients were finite with nobody";
  EXPECT_GT(sum.retried, sum.quarantined) << "others were with another peer";
}

TEST(Simulation, keeps_all_laws_of_jobs_with_more_pieces_than_members) {
  SimulatedWorld world;
  world.pieces = 12;
  for (std::uint64_t seed = 1; seed <= std::min<std::uint64_t>(60, plans()); ++seed) {
    const FaultPlan plan = drawn_plan(seed);
    EXPECT_EQ(simulate(plan, world).violation, "") << to_text(plan);
  }
}

TEST(Simulation, goes_on_over_links_that_lose_messages) {
  SimulatedWorld world;
  world.lost = 0.05;
  for (std::uint64_t seed = 1; seed <= std::min<std::uint64_t>(50, plans()); ++seed) {
    const SimulationResult result = simulate({.seed = seed, .peers = 4, .rounds = 5, .faults = {}}, world);
    EXPECT_EQ(result.violation, "") << seed;
    EXPECT_EQ(result.rounds, 5) << seed;
  }
}

TEST(Simulation, goes_on_with_the_last_of_two_peers_and_takes_a_new_one_in) {
  const FaultPlan plan{.seed = 3,
                       .peers = 2,
                       .rounds = 8,
                       .faults = {{FaultKind::join, 1, 2, FaultPhase::accumulate, 0},
                                  {FaultKind::kill, 0, 3, FaultPhase::exchange, 0}}};
  const SimulationResult result = simulate(plan);
  EXPECT_EQ(result.violation, "");
  EXPECT_EQ(result.rounds, 8);
  EXPECT_EQ(result.ignored, 0);
}

TEST(Simulation, retries_a_micro_batch_that_is_not_finite_and_quarantines_it_only_if_it_never_is) {
  for (const FaultKind kind : {FaultKind::spoil, FaultKind::poison}) {
    const FaultPlan plan{.seed = 9, .peers = 3, .rounds = 6, .faults = {{kind, 1, 1, FaultPhase::accumulate, 0}}};
    const SimulationResult result = simulate(plan);
    EXPECT_EQ(result.violation, "");
    EXPECT_EQ(result.rounds, 6);
    EXPECT_EQ(result.excluded, 0) << "nobody waits for what is not finite";
    EXPECT_GT(result.retried, 0);
    EXPECT_EQ(result.quarantined > 0, kind == FaultKind::poison);
  }
}

TEST(Simulation, says_when_rounds_are_not_committed_in_time) {
  SimulatedWorld world;
  world.time_limit = 3;
  const SimulationResult result = simulate({.seed = 1, .peers = 3, .rounds = 50, .faults = {}}, world);
  EXPECT_NE(result.violation.find("progress"), std::string::npos) << result.violation;
}

TEST(Simulation, of_equal_plans_is_equal) {
  for (const std::uint64_t seed : {5U, 85U, 361U}) {
    const SimulationResult first = simulate(drawn_plan(seed));
    const SimulationResult second = simulate(drawn_plan(seed));
    EXPECT_EQ(first.events, second.events);
    EXPECT_EQ(first.at, second.at);
  }
}

}  // namespace
}  // namespace reef::swarm::core
