// reef-plan blocks and route as a user runs them.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

TEST_F(ReefPlan, blocks_answers_what_its_op_asks) {
  const auto test = [](int i) {
    return case_of("petals_block_selection.json", static_cast<std::size_t>(i));
  };
  EXPECT_EQ(answer("blocks", test(0)).at("start"), 3);
  EXPECT_EQ(answer("blocks", test(3)).at("start"), 5);
  const io::Json moved = answer("blocks", test(5));
  EXPECT_EQ(moved.at("move"), true);
  EXPECT_EQ(moved.at("current_throughput"), 10);
  EXPECT_EQ(moved.at("simulated_throughput"), 20);
  EXPECT_EQ(answer("blocks", test(8)).at("throughput"), 1185.5);
  io::Json join = case_of("petals_greedy_join.json", 0);
  join["op"] = "greedy_join";
  const io::Json joined = answer("blocks", join);
  EXPECT_EQ(joined.at("starts"), join.at("expect_starts"));
  EXPECT_EQ(joined.at("t"), join.at("expect_t"));
  EXPECT_EQ(joined.at("throughput"), 85);
  // Without an op: the plan. Of three that are stacked one moves, and one that comes is placed.
  const io::Json swarm{{"L", 6},
                       {"servers",
                        {{{"id", "A"}, {"start", 0}, {"end", 3}, {"thr", 10}},
                         {{"id", "B"}, {"start", 0}, {"end", 3}, {"thr", 10}},
                         {{"id", "C"}, {"start", 0}, {"end", 3}, {"thr", 10}},
                         {{"id", "D"}, {"K", 3}, {"thr", 10}}}}};
  const io::Json plan = answer("blocks", swarm);
  EXPECT_EQ(plan.at("feasible"), true);
  EXPECT_EQ(plan.at("throughput"), 20);
  EXPECT_EQ(plan.at("upper_bound"), 20);
  EXPECT_EQ(plan.at("moves"), (io::Json{{{"id", "A"}, {"start", 3}, {"end", 6}},
                                        {{"id", "D"}, {"start", 3}, {"end", 6}}}));
  io::Json alone = swarm;
  alone["servers"].erase(1);
  alone["L"] = 20;
  const io::Json none = answer("blocks", alone);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("no placement was found"));
}

TEST_F(ReefPlan, route_says_the_way_and_what_is_missing) {
  io::Json test = case_of("petals_routing.json", 0);
  const io::Json found = answer("route", test);
  EXPECT_EQ(found.at("feasible"), true);
  EXPECT_NEAR(found.at("cost").get<double>(), 0.116, 1e-12);
  EXPECT_EQ(found.at("path"), (io::Json{{"B", 0, 4}, {"C", 4, 8}}));
  test["servers"]["C"]["queue"] = 40;
  EXPECT_EQ(answer("route", test).at("path"), (io::Json{{"B", 0, 4}, {"A", 4, 8}}))
      << "40 requests wait at C";
  test["servers"].erase("A");
  test["servers"].erase("C");
  const io::Json none = answer("route", test);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_EQ(none.at("why"), "no server holds block 4");
  io::Json cache = case_of("petals_routing.json", 2);
  cache["end"] = 2;
  EXPECT_EQ(answer("route", cache).at("path"), (io::Json{{"B", 0, 2}}));
  EXPECT_EQ(answer("route", cache, "--used-cache").at("path"), (io::Json{{"A", 0, 2}}));
}

TEST_F(ReefPlan, blocks_and_route_name_the_field_that_cannot_be) {
  const io::Json start = case_of("petals_block_selection.json", 0);
  refused("blocks", with(start, "/op", "fly"), "'op' is 'fly'");
  refused("blocks", with(start, "/K", 8), "'K' is 8");
  refused("blocks", with(start, "/t/2", -1), "t[2] is -1");
  refused("blocks", with(start, "/t", "many"), "'t' must be an array");
  refused("blocks", with(start, "/t", std::vector<int>(1'000'000)), "'t' has 1000000 numbers");
  const io::Json move = case_of("petals_block_selection.json", 5);
  refused("blocks", with(move, "/me", "nobody"), "no server 'nobody'");
  refused("blocks", with(move, "/L", 1'000'000'000), "'L' is 1000000000");
  refused("blocks", with(move, "/servers", io::Json(150'000, io::Json::object())),
          "'servers.100000' is more than 100000");
  refused("blocks", with(move, "/servers/1/thr", -3), "servers[1]: 'thr' is -3");
  refused("blocks", with(move, "/servers/1/end", 7), "servers[1]: 'end' is 7");
  refused("blocks", with(move, "/servers/1/state", "ASLEEP"), "servers[1].state is \"ASLEEP\"");
  refused("blocks", with(move, "/servers/1/id", "A"), "servers[1] says again where 'A' is");
  refused("blocks", with(move, "/servers/1/speed", 1), "'servers[1].speed'");
  refused("blocks", with(move, "/balance_quality", "high"), "'balance_quality' must be a number");
  io::Json asked_nothing = move;
  asked_nothing.erase("op");
  refused("blocks", asked_nothing, "nothing reads the key 'balance_quality'");
  refused("blocks", with(start, "/servers", io::Json::array()), "nothing reads the key 'servers'");
  const io::Json join = case_of("petals_greedy_join.json", 0);
  refused("blocks", with(join, "/capacities/3", 21), "'capacities.3' is 21");
  refused("blocks", with(join, "/throughputs", {1}), "'throughputs' 1");
  const io::Json rate = case_of("petals_block_selection.json", 8);
  refused("blocks", with(rate, "/num_blocks", 0), "'num_blocks' is 0");
  refused("blocks", with(rate, "/network_rps", -1), "'network_rps' is -1");
  const io::Json route = case_of("petals_routing.json", 0);
  refused("route", with(route, "/end", 9), "'end' is 9");
  refused("route", with(route, "/start", 8), "'start' is 8");
  refused("route", with(route, "/servers/A/rps", 0), "servers.A: 'rps' is 0");
  refused("route", with(route, "/servers/A/end", 0), "servers.A: 'end' is 0");
  refused("route", with(route, "/servers/B/next/C", -1), "servers.B.next says -1 of \"C\"");
  refused("route", with(route, "/client_rtt/A", "far"), "client_rtt says \"far\" of \"A\"");
  refused("route", with(route, "/cache_tokens_needed", -1), "'cache_tokens_needed' is -1");
  refused("route", with(route, "/servers", 3), "'servers' is no object");
}

}  // namespace
}  // namespace reef::test
