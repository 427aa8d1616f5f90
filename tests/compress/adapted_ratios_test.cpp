// Ratios of edges by the links of all replicas, in virtual time.

#include <reef/compress/detail/adapted_ratios.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <reef/plan/adatopk.hpp>

#include "../run/two_layer_dag.hpp"

namespace reef::test {
namespace {

using schedule::Traffic;

/// One segment a stage.
run::StepPlan staged(const graph::Dag& dag, int replicas, int stages) {
  std::vector<int> cuts;
  for (int node = 0; node <= stages; ++node) cuts.push_back(node);
  return run::make_step_plan(dag, cuts, run::Topology(replicas, stages), 1,
                             std::vector<int>(static_cast<std::size_t>(replicas), 1), false);
}

schedule::World random_world(std::mt19937_64& random, int ranks) {
  schedule::World world = schedule::World::uniform(ranks, {}, {});
  for (schedule::Link& link : world.links) {
    link.latency = 1e-4 * static_cast<double>(random() % 100);
    link.bytes_per_second = std::pow(10.0, 3 + static_cast<double>(random() % 400) / 100);
  }
  return world;
}

/// Every tensor of the chain has as many bytes.
constexpr double bytes_of_tensor = 4 * 16 * 4;

/// The network of one replica that has, between any two stages, the link of all replicas that takes longest for what
/// the one sends the other.
schedule::World slowest_of(const schedule::World& network, const run::StepPlan& plan,
                           Traffic traffic) {
  const auto [replicas, stages] = std::pair(plan.topology.replicas, plan.topology.stages);
  schedule::World slowest = schedule::World::uniform(stages, {}, {});
  for (int from = 0; from < stages; ++from) {
    for (int to = 0; to < stages; ++to) {
      const auto sent = std::ranges::count_if(
          plan.remote_edges, [&, first = from, second = to](const graph::RemoteEdge& edge) {
            return edge.gradient == (traffic == Traffic::activation_gradient) &&
                   plan.stage_of_segment[static_cast<std::size_t>(edge.from)] == first &&
                   plan.stage_of_segment[static_cast<std::size_t>(edge.to)] == second;
          });
      const double bytes = static_cast<double>(sent) * bytes_of_tensor;
      double longest = -1;
      for (int replica = 0; replica < replicas; ++replica) {
        const schedule::Link& link = network.link(replica * stages + from, replica * stages + to);
        const double time = link.latency + bytes / link.bytes_per_second;
        if (time <= longest) continue;
        longest = time;
        slowest.links[static_cast<std::size_t>(from * stages + to)] = link;
      }
    }
  }
  return slowest;
}

TEST(AdaptedRatios, of_replicas_are_those_of_one_that_has_the_slowest_link_of_each_edge) {
  std::mt19937_64 random(45);
  int shrunk = 0;
  for (int run = 0; run < 200; ++run) {
    const int replicas = 2 + static_cast<int>(random() % 3);
    const int stages = 2 + static_cast<int>(random() % 4);
    const graph::Dag dag = chain_dag(stages, 100);
    const run::StepPlan several = staged(dag, replicas, stages);
    const run::StepPlan one = staged(dag, 1, stages);
    const schedule::World network = random_world(random, replicas * stages);
    for (const Traffic traffic : {Traffic::activation, Traffic::activation_gradient}) {
      const std::vector<double> ratios =
          compress::detail::adapted_ratios(several, network, traffic, 100, 0);
      const schedule::World slowest = slowest_of(network, several, traffic);
      const std::vector<double> expected =
          compress::detail::adapted_ratios(one, slowest, traffic, 100, 0);
      EXPECT_EQ(ratios, expected) << "run " << run << ", " << replicas << " replicas of " << stages
                                  << " stages, " << schedule::name_of(traffic);
      shrunk +=
          static_cast<int>(std::ranges::count_if(ratios, [](double ratio) { return ratio > 1; }));
    }
  }
  EXPECT_GT(shrunk, 200) << "or few ratios were compared";
}

TEST(AdaptedRatios, do_not_depend_on_which_replica_has_the_slow_link) {
  const graph::Dag dag = chain_dag(3, 100);
  const run::StepPlan plan = staged(dag, 3, 3);
  const auto ratios = [&](int replica) {
    auto network = schedule::World::uniform(9, {}, {.latency = 0, .bytes_per_second = 1e6});
    const int from = plan.topology.rank(replica, 1);
    network.links[static_cast<std::size_t>(from * 9 + plan.topology.rank(replica, 2))]
        .bytes_per_second = 1e3;
    return compress::detail::adapted_ratios(plan, network, Traffic::activation, 50, 0);
  };
  const std::vector<double> first = ratios(0);
  for (int replica = 1; replica < 3; ++replica)
    EXPECT_EQ(ratios(replica), first) << "replica " << replica << " is slow";
  for (std::size_t e = 0; e < plan.remote_edges.size(); ++e) {
    const graph::RemoteEdge& edge = plan.remote_edges[e];
    const bool slow = plan.stage_of_segment[static_cast<std::size_t>(edge.from)] == 1;
    if (edge.gradient) {
      EXPECT_EQ(first[e], 0) << "edge " << e << " is of the other direction";
    } else if (slow) {
      EXPECT_GT(first[e], 50) << "edge " << e
                              << " goes over the slow link, and an index goes with every value";
    } else {
      EXPECT_EQ(first[e], 1) << "edge " << e << " takes less as it is";
    }
  }
}

/// By the plan's two numbers for each edge, as its source says it.
TEST(AdaptedRatios, are_those_of_a_pipeline_whose_links_carry_all_tensors_between_two_stages) {
  std::mt19937_64 random(46);
  for (int run = 0; run < 100; ++run) {
    const int stages = 2 + static_cast<int>(random() % 5);
    const graph::Dag dag = chain_dag(stages, 100);
    const run::StepPlan plan = staged(dag, 1, stages);
    const schedule::World network = random_world(random, stages);
    const Seconds compute = 1e-3 * static_cast<double>(random() % 50);
    // Forward, a stage sends the next one tensor; the first also the last one, which is a link of its own from 3 stages on.
    std::vector<std::pair<int, int>> ends;
    for (int stage = 0; stage + 1 < stages; ++stage) ends.emplace_back(stage, stage + 1);
    if (stages > 2) ends.emplace_back(0, stages - 1);
    std::vector<plan::AdaTopKLink> links;
    for (const auto& [from, to] : ends) {
      const schedule::Link& link = network.link(from, to);
      links.push_back({link.latency, bytes_of_tensor / link.bytes_per_second});
    }
    const std::vector<double> expected =
        plan::adatopk(links, {.ratio = 20, .index_bytes = 2, .compute = compute}).ratios;
    const std::vector<double> ratios =
        compress::detail::adapted_ratios(plan, network, Traffic::activation, 20, compute);
    std::size_t compared = 0;
    for (std::size_t e = 0; e < plan.remote_edges.size(); ++e) {
      const graph::RemoteEdge& edge = plan.remote_edges[e];
      if (edge.gradient) continue;
      const std::pair stage{plan.stage_of_segment[static_cast<std::size_t>(edge.from)],
                            plan.stage_of_segment[static_cast<std::size_t>(edge.to)]};
      const auto link = std::ranges::find(ends, stage) - ends.begin();
      ASSERT_LT(link, std::ssize(ends)) << "stages " << stage.first << " and " << stage.second;
      EXPECT_DOUBLE_EQ(ratios[e], expected[static_cast<std::size_t>(link)])
          << "run " << run << ", from stage " << stage.first << " to " << stage.second;
      ++compared;
    }
    EXPECT_EQ(compared, ends.size());
  }
}

}  // namespace
}  // namespace reef::test
