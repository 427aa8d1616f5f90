// Stages placed by the links between ranks: who exchanges most is near.

#include <reef/run/allocated_stages.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <reef/profile/network.hpp>
#include <reef/schedule/world.hpp>

#include "chain_dag.hpp"

namespace reef::test {
namespace {

using run::AllocatedStages;
using run::Topology;
using testing::HasSubstr;

/// Two sites: ranks 0 and 2, ranks 1 and 3. Links within one take next to nothing.
profile::Network two_sites() {
  profile::Network links{4, {}, {}, {}};
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      const bool is_near = from % 2 == to % 2;
      links.latencies.push_back(is_near ? 0 : 1e-6);
      links.rates.push_back(is_near ? 1e12 : 1e6);
    }
  }
  return links;
}

TEST(AllocatedStages, keeps_replicas_of_a_stage_near_where_gradients_are_most_of_it) {
  const graph::Dag dag = chain_of_widths(std::vector<std::int64_t>(8, 1));
  const AllocatedStages found = run::allocated_stages(dag, Topology(2, 2), two_sites(), 1);
  for (const int stage : {0, 1}) {
    EXPECT_EQ(found.topology.rank(0, stage) % 2, found.topology.rank(1, stage) % 2)
        << "stage " << stage << " is at two sites";
  }
  EXPECT_LE(found.cost.total(), found.cost_in_turn.total());
  found.topology.validate_ranks();
}

TEST(AllocatedStages, keeps_a_pipeline_near_where_activations_are_most_of_it) {
  const graph::Dag dag = chain_of_widths(std::vector<std::int64_t>(8, 16));
  const AllocatedStages found = run::allocated_stages(dag, Topology(2, 2), two_sites(), 1'000'000);
  for (const int replica : {0, 1}) {
    EXPECT_EQ(found.topology.rank(replica, 0) % 2, found.topology.rank(replica, 1) % 2)
        << "replica " << replica << " is at two sites";
  }
  EXPECT_LT(found.cost.total(), found.cost_in_turn.total());
}

TEST(AllocatedStages, refuses_a_network_of_others) {
  const graph::Dag dag = chain_of_widths(std::vector<std::int64_t>(8, 16));
  try {
    run::allocated_stages(dag, Topology(1, 3), two_sites(), 1);
    ADD_FAILURE() << "no exception";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a network of 4 devices for 3 ranks"));
  }
}

TEST(World, of_a_network_has_its_links_and_what_they_share) {
  const profile::Network links{.devices = 2, .latencies = {0, 0.02, 0.03, 0}, .rates = {1, 1e6, 2e6, 1}};
  const schedule::World world = schedule::World::of(links);
  EXPECT_EQ(world.link(0, 1).latency, 0.02);
  EXPECT_EQ(world.link(1, 0).bytes_per_second, 2e6);
  EXPECT_EQ(world.machines[1].uplink_bytes_per_second, 0) << "they share nothing";
  const schedule::World homes = schedule::World::of(links.with_uplinks({3, 4}, {5, 6}));
  EXPECT_EQ(homes.link(1, 0).bytes_per_second, 2e6);
  EXPECT_EQ(homes.machines[0].uplink_bytes_per_second, 3);
  EXPECT_EQ(homes.machines[1].uplink_bytes_per_second, 4);
  EXPECT_EQ(homes.machines[1].downlink_bytes_per_second, 6);
  EXPECT_THROW(schedule::World::of({.devices = 3, .latencies = {0}, .rates = {1}}), OptionError);
}

}  // namespace
}  // namespace reef::test
