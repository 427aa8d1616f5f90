// Servers that join in turn, against known starts.

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/block_choice.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

TEST(PetalsGreedyJoin, starts_where_known) {
  const io::Json file = read_case_file("petals_greedy_join.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    plan::Swarm swarm;
    swarm.blocks = test.at("L").get<int>();
    const auto room = test.at("capacities").get<std::vector<int>>();
    const auto throughputs = test.at("throughputs").get<std::vector<double>>();
    for (std::size_t i = 0; i < room.size(); ++i) {
      swarm.servers.push_back({std::to_string(i), plan::SwarmServer::nowhere, room[i],
                               plan::to_throughput(throughputs[i])});
    }
    const std::vector<int> starts = plan::join_in_turn(swarm);
    EXPECT_EQ(starts, test.at("expect_starts").get<std::vector<int>>());
    for (std::size_t i = 0; i < starts.size(); ++i) swarm.servers[i].start = starts[i];
    std::vector<double> t;
    for (const plan::Throughput block : block_throughputs(swarm))
      t.push_back(plan::per_second(block));
    EXPECT_EQ(t, test.at("expect_t").get<std::vector<double>>());
    const plan::Throughput slowest = plan::slowest_block(block_throughputs(swarm));
    EXPECT_EQ(plan::per_second(slowest), test.at("expect_min").get<double>());
    EXPECT_LE(test.at("best_assignment_found").get<double>(),
              plan::per_second(throughput_bound(swarm)));
    EXPECT_NEAR(plan::per_second(throughput_bound(swarm)), test.at("lp_upper_bound").get<double>(),
                1e-5);
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
