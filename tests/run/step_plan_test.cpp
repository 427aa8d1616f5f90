#include <reef/run/step_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "two_layer_dag.hpp"

namespace reef::test {

TEST(StepPlan, shards_are_whole_norm_blocks_and_cover_everything) {
  for (const std::int64_t n : {0L, 1L, 4095L, 4096L, 4097L, 100000L}) {
    for (const int ranks : {1, 2, 3, 7, 40}) {
      const auto offsets = run::shard_offsets(n, ranks);
      ASSERT_EQ(offsets.size(), static_cast<std::size_t>(ranks) + 1);
      EXPECT_EQ(offsets.front(), 0);
      EXPECT_EQ(offsets.back(), n);
      for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
        EXPECT_LE(offsets[r], offsets[r + 1]);
        EXPECT_TRUE(offsets[r] % run::norm_block == 0 || offsets[r] == n);
        const std::int64_t share = (n + run::norm_block - 1) / run::norm_block / ranks + 1;
        EXPECT_LE(offsets[r + 1] - offsets[r], share * run::norm_block);
      }
    }
  }
}

TEST(StepPlan, blocks_of_a_norm_begin_with_parameters_and_shards_with_blocks) {
  const std::vector<std::int64_t> parameters{0, 16, 9'008, 9'024, 30'000};
  constexpr std::int64_t n = 30'016;
  for (const int ranks : {1, 2, 3, 7, 40}) {
    const auto offsets = run::shard_offsets(n, ranks, parameters);
    EXPECT_EQ(offsets.front(), 0);
    EXPECT_EQ(offsets.back(), n);
    EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
    Group all{"all", std::vector<int>(static_cast<std::size_t>(ranks))};
    std::iota(all.members.begin(), all.members.end(), 0);
    const run::Bucket bucket{0, 0, n, parameters, offsets, offsets, 0, all};
    std::vector<std::int64_t> begins;
    for (int r = 0; r < ranks; ++r) {
      EXPECT_LE(std::abs(bucket.shard_size(r) - n / ranks), run::norm_block + ranks);
      for (const auto& [begin, end] : bucket.pieces_of(r)) {
        for (std::int64_t at = begin; at < end; at += run::norm_block) begins.push_back(at);
      }
    }
    EXPECT_EQ(begins, (std::vector<std::int64_t>{0, 16, 4'112, 8'208, 9'008, 9'024, 13'120, 17'216,
                                                 21'312, 25'408, 29'504, 30'000}))
        << "whatever the ranks";
    EXPECT_EQ(run::norm_blocks(bucket.pieces(0, n)), 12);
  }
}

/// The least of the most that a rank is loaded with, of all ways to deal work out in order: by trying them.
std::int64_t least_load(std::span<const std::int64_t> work, std::span<const std::int64_t> loads) {
  if (loads.size() == 1) return std::accumulate(work.begin(), work.end(), loads[0]);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t mine = loads[0];
  for (std::size_t taken = 0; taken <= work.size(); ++taken) {
    least = std::min(least, std::max(mine, least_load(work.subspan(taken), loads.subspan(1))));
    if (taken < work.size()) mine += work[taken];
  }
  return least;
}

TEST(StepPlan, shards_of_whole_parts_load_no_rank_more_than_they_must) {
  std::mt19937 draw(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> begins;
    std::vector<std::int64_t> work;
    std::int64_t n = 0;
    for (std::uint32_t p = 0; p < 1 + draw() % 7; ++p) {
      begins.push_back(n);
      work.push_back(draw() % 4 == 0 ? 0 : static_cast<std::int64_t>(draw() % 20));
      n += 16 * (1 + draw() % 9);
    }
    std::vector<std::int64_t> loads(1 + draw() % 4);
    for (std::int64_t& load : loads) load = static_cast<std::int64_t>(draw() % 25);
    const std::int64_t least = least_load(work, loads);
    const std::int64_t before = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
    const std::size_t ranks = loads.size();
    const auto offsets = run::whole_shard_offsets(n, begins, work, loads);
    EXPECT_EQ(*std::max_element(loads.begin(), loads.end()), least);
    EXPECT_EQ(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}),
              before + std::accumulate(work.begin(), work.end(), std::int64_t{0}));
    ASSERT_EQ(offsets.size(), ranks + 1);
    EXPECT_EQ(offsets.front(), 0);
    EXPECT_EQ(offsets.back(), n);
    EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
    for (const std::int64_t offset : offsets) {
      EXPECT_TRUE(offset == n || std::find(begins.begin(), begins.end(), offset) != begins.end());
    }
  }
  std::vector<std::int64_t> loads(4);
  const std::vector<std::int64_t> begins{0, 16, 32, 48, 64, 80, 96, 112, 128};
  const std::vector<std::int64_t> work(9, 1);
  EXPECT_EQ(run::whole_shard_offsets(144, begins, work, loads), (std::vector<std::int64_t>{0, 32, 64, 96, 144}))
      << "none is left without";
}

TEST(ParameterGroup, fits_names_by_their_parts) {
  const auto fits = [](std::string pattern, const char* name) { return run::ParameterGroup{std::move(pattern)}.fits(name); };
  EXPECT_TRUE(fits("a.bias", "a.bias"));
  EXPECT_FALSE(fits("a.bias", "a.bias2"));
  EXPECT_FALSE(fits("a.bias", "a_bias"));
  EXPECT_TRUE(fits("*", ""));
  EXPECT_TRUE(fits("*.bias", "h.0.mlp.bias"));
  EXPECT_TRUE(fits("h.*.mlp.*", "h.10.mlp.c_fc.weight"));
  EXPECT_FALSE(fits("h.*.mlp.*.bias", "h.10.mlp.c_fc.weight"));
  EXPECT_TRUE(fits("h.?.mlp*", "h.1.mlp"));
  EXPECT_FALSE(fits("h.?.mlp*", "h.10.mlp"));
  EXPECT_TRUE(fits("*ab*ab", "abaab"));
  EXPECT_FALSE(fits("*ab*ab", "aab"));
}

TEST(ParameterGroup, the_first_that_fits_has_a_parameter) {
  const graph::Dag dag = chain_dag(4, 100);
  const std::string first = dag.parameters[0].name;
  std::vector<int> expected(dag.parameters.size(), 1);
  expected[0] = 0;
  EXPECT_EQ(run::groups_of_parameters(dag, {{.pattern = first}, {.pattern = "*"}}), expected);
  EXPECT_EQ(run::groups_of_parameters(dag, {}), std::vector<int>(dag.parameters.size(), -1));
  EXPECT_THROW(run::groups_of_parameters(dag, {{.pattern = "*"}, {.pattern = first}}), OptionError);
  EXPECT_THROW(run::groups_of_parameters(dag, {{.pattern = "nobody"}}), OptionError);
  EXPECT_THROW(run::groups_of_parameters(dag, {{.pattern = "*", .learning_rate = -1}}), OptionError);
  EXPECT_THROW(run::groups_of_parameters(dag, {{.pattern = "*", .weight_decay = 1e9}}), OptionError);
  EXPECT_THROW(run::groups_of_parameters(dag, {{}}), OptionError);
}

TEST(StepPlan, every_parameter_is_in_the_bucket_of_its_first_use) {
  const graph::Dag dag = chain_dag(4, 100);
  const run::StepPlan plan = plan_of(dag, 2, {1, 1});
  ASSERT_EQ(plan.buckets.size(), 3U);
  EXPECT_EQ(plan.bucket_of_segment, (std::vector<int>{0, 1, 2, -1}));
  std::int64_t covered = 0;
  for (const run::Bucket& bucket : plan.buckets) {
    EXPECT_EQ(bucket.begin, covered);
    covered = bucket.end;
  }
  EXPECT_EQ(covered, plan.layout.parameter_elements);
}

TEST(StepPlan, cuts_stand_where_few_bytes_cross_and_parameters_suffice) {
  const graph::Dag dag = chain_dag(6, 1000);
  const std::vector<int> one = run::choose_cuts(dag, Bytes{1} << 30);
  EXPECT_EQ(one, (std::vector<int>{0, 6}));
  const std::vector<int> all = run::choose_cuts(dag, 1);
  EXPECT_EQ(all.front(), 0);
  EXPECT_EQ(all.back(), 6);
  EXPECT_GT(all.size(), 3U);
  EXPECT_LT(run::choose_cuts(dag, 8000).size(), all.size());
}

TEST(StepPlan, counts_micro_batches_rank_after_rank) {
  const graph::Dag dag = chain_dag(3, 10);
  const run::StepPlan ranks = plan_of(dag, 3, {2, 1, 4});
  EXPECT_EQ(ranks.micro_batches_in_all(), 7);
  EXPECT_EQ(ranks.micro_batches_of(2), 4);
  EXPECT_EQ(ranks.micro_batches_before(2), 3);
  const run::StepPlan alone = plan_of(dag, 1, {2, 1, 4}, 3);
  EXPECT_EQ(alone.micro_batches_of(0), 7);
  EXPECT_EQ(alone.micro_batches_before(0), 0);
}

TEST(StepPlan, refuses_what_makes_no_step) {
  graph::Dag dag = chain_dag(3, 10);
  EXPECT_THROW(plan_of(dag, 2, {1, 1}, 2), OptionError);  // stands for two, but is not alone
  EXPECT_THROW(plan_of(dag, 2, {1}), OptionError);        // a count is missing
  EXPECT_THROW(plan_of(dag, 2, {1, 0}), OptionError);     // a rank without work
  EXPECT_THROW(plan_of(dag, 2, {1 << 30, 1 << 30}), OptionError);  // a sum that no int has
  dag.loss = -1;
  EXPECT_THROW(plan_of(dag, 1, {1}), OptionError);
}

TEST(StepPlan, refuses_a_graph_without_input_or_parameter_by_name) {
  const auto refusal = [](const graph::Dag& dag) {
    try {
      plan_of(dag, 1, {1});
    } catch (const OptionError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  graph::Signature scalar;
  scalar.outputs = {{Shape{}, Element::float32}};
  graph::Dag no_parameter;
  const int x = no_parameter.add_input("x", {Shape{2}, Element::float32});
  no_parameter.set_loss(
      no_parameter.node_at(no_parameter.add_node("loss", "Sum", {x}, scalar)).outputs[0]);
  EXPECT_NE(refusal(no_parameter).find("has no parameter"), std::string::npos);
  graph::Dag no_input;
  scalar.parameters = {{"w", Shape{2}, graph::Init::ones(), true}};
  no_input.set_loss(no_input.node_at(no_input.add_node("loss", "Sum", {}, scalar)).outputs[0]);
  EXPECT_NE(refusal(no_input).find("has no input"), std::string::npos);
  EXPECT_NE(refusal({}).find("has no loss"), std::string::npos);
}

}  // namespace reef::test
