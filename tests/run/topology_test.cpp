#include <reef/run/topology.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <reef/optim/detail/scalars.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/step_builder.hpp>

#include "two_layer_dag.hpp"

namespace reef::test {

using run::Topology;
using testing::ElementsAre;
using testing::HasSubstr;

/// What is thrown.
template <class F>
std::string refusal_of(const F& f) {
  try {
    f();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "none";
}

TEST(Topology, a_number_of_ranks_is_as_many_replicas_of_one_stage) {
  const Topology topology = 3;
  EXPECT_EQ(topology.ranks(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(topology.replica_of(rank), rank);
    EXPECT_EQ(topology.stage_of(rank), 0);
    EXPECT_EQ(topology.rank(rank, 0), rank);
  }
  EXPECT_EQ(topology.holders(0).members, topology.everyone().members);
}

TEST(Topology, every_rank_has_one_place_wherever_it_is) {
  Topology topology(2, 3);
  topology.rank_at = {5, 0, 3, 1, 4, 2};
  topology.validate(3);
  for (int replica = 0; replica < 2; ++replica) {
    for (int stage = 0; stage < 3; ++stage) {
      const int rank = topology.rank(replica, stage);
      EXPECT_EQ(topology.replica_of(rank), replica);
      EXPECT_EQ(topology.stage_of(rank), stage);
    }
  }
  EXPECT_THAT(topology.holders(0).members, ElementsAre(1, 5));
  EXPECT_THAT(topology.holders(2).members, ElementsAre(2, 3));
  EXPECT_THAT(topology.pipeline(0).members, ElementsAre(0, 3, 5));
  EXPECT_EQ(topology.holders(0).name, "stage 0");
}

TEST(Topology, segments_are_shared_out_evenly_where_nobody_says_how) {
  EXPECT_THAT(Topology(1, 2).stages_of(5), ElementsAre(0, 0, 1, 1, 1));
  Topology looped(1, 2);
  looped.stage_of_segment = {0, 1, 0, 1};
  EXPECT_THAT(looped.stages_of(4), ElementsAre(0, 1, 0, 1));
}

TEST(Topology, says_how_many_there_are_of_each) {
  EXPECT_EQ(Topology(1, 3).text(), "1 replica of 3 stages");
  EXPECT_EQ(Topology(2, 1).text(), "2 replicas of 1 stage");
}

TEST(Topology, refuses_what_is_no_topology_by_name) {
  EXPECT_THAT(refusal_of([] { Topology(0, 2).validate(4); }), HasSubstr("0 replicas of 2 stages"));
  EXPECT_THAT(refusal_of([] { Topology(1, 5).validate(4); }),
              HasSubstr("5 stages for a model of 4 segments"));
  const auto with = [](std::vector<int> rank_at, std::vector<int> stages) {
    Topology topology(2, 2);
    topology.rank_at = std::move(rank_at);
    topology.stage_of_segment = std::move(stages);
    return refusal_of([&] { topology.validate(3); });
  };
  EXPECT_EQ(with({1, 0, 3, 2}, {0, 0, 1}), "none");
  EXPECT_THAT(with({0, 1, 1, 2}, {}), HasSubstr("a permutation of 0 to 3"));
  EXPECT_THAT(with({0, 1, 2}, {}), HasSubstr("rank_at has 3 entries"));
  EXPECT_THAT(with({}, {0, 1}), HasSubstr("stage_of_segment has 2 entries for 3 segments"));
  EXPECT_THAT(with({}, {0, 0, 0}), HasSubstr("stage 1 has no segment"));
  EXPECT_THAT(with({}, {0, 1, 2}), HasSubstr("a segment is in stage 2 of 2"));
}

/// Four layers of 5000 weights, of which the last uses those of the first: so these two share a stage.
run::StepPlan plan_on(const graph::Dag& dag, Topology topology, std::vector<int> micro_batches) {
  std::vector<int> cuts;
  for (int node = 0; node <= dag.node_count(); ++node) cuts.push_back(node);
  return run::make_step_plan(dag, cuts, std::move(topology), 1, std::move(micro_batches), false);
}

Topology ring() {
  Topology topology(2, 2);
  topology.stage_of_segment = {0, 1, 1, 0};
  return topology;
}

TEST(Topology, buckets_are_reduced_by_the_holders_of_their_stage) {
  const graph::Dag dag = chain_dag(4, 5000);
  const run::StepPlan plan = plan_on(dag, ring(), {2, 3});
  ASSERT_EQ(plan.buckets.size(), 3U);
  EXPECT_EQ(plan.buckets[0].stage, 0);
  EXPECT_EQ(plan.buckets[1].stage, 1);
  EXPECT_THAT(plan.buckets[0].group.members, ElementsAre(0, 2));
  EXPECT_THAT(plan.buckets[1].group.members, ElementsAre(1, 3));
  for (const run::Bucket& bucket : plan.buckets) {
    ASSERT_EQ(bucket.shards.size(), 3U);
    std::int64_t covered = 0;
    for (const int member : bucket.group.members) {
      EXPECT_EQ(bucket.shard_begin(member), covered);
      covered += bucket.shard_size(member);
    }
    EXPECT_EQ(covered, bucket.size());
  }
  EXPECT_EQ(plan.loss_stage(), 0);
  EXPECT_EQ(plan.micro_batches_in_all(), 5) << "a stage more is no micro-batch more";
  EXPECT_EQ(plan.micro_batches_before(3), 2);
}

TEST(Topology, a_rank_reserves_what_its_stage_holds) {
  const graph::Dag dag = chain_dag(4, 5000);
  const run::StepPlan plan = plan_on(dag, ring(), {2, 3});
  for (int rank = 0; rank < 4; ++rank) {
    const run::StepBuilder builder(plan, rank, run::Purpose::training);
    const int stage = rank % 2;
    EXPECT_EQ(builder.stage(), stage);
    EXPECT_EQ(builder.reports_loss(), stage == 0);
    EXPECT_EQ(builder.segments(), stage == 0 ? (std::vector<int>{0, 3}) : (std::vector<int>{1, 2}));
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      const bool holds = plan.buckets[b].stage == stage;
      EXPECT_EQ(builder.weights[b] != run::no_storage, holds);
      EXPECT_EQ(builder.reduced[b] != run::no_storage, holds);
      EXPECT_EQ(std::count(builder.stage_buckets().begin(), builder.stage_buckets().end(), b), holds ? 1 : 0);
    }
  }
}

TEST(Topology, stages_of_a_replica_number_their_micro_batches_alike) {
  const graph::Dag dag = chain_dag(4, 5000);
  const run::StepPlan plan = plan_on(dag, ring(), {2, 3});
  for (int rank = 0; rank < 4; ++rank) {
    run::StepBuilder builder(plan, rank, run::Purpose::training);
    EXPECT_EQ(run::add_micro_batches(builder), 0);
    const int replica = rank / 2;
    ASSERT_EQ(builder.micro_batches.size(), replica == 0 ? 2U : 3U);
    EXPECT_EQ(builder.micro_batches[0].number, replica == 0 ? 0 : 2);
    const auto batches =
        std::count_if(builder.program.round.begin(), builder.program.round.end(),
                      [](const schedule::Instruction& i) { return i.kind == "Batch"; });
    EXPECT_EQ(batches, rank % 2 == 0 ? static_cast<std::ptrdiff_t>(builder.micro_batches.size()) : 0)
        << "a middle stage reads no input";
    const auto& first = builder.micro_batches[0];
    EXPECT_EQ(first.loss != run::no_storage, rank % 2 == 0);
    EXPECT_EQ(first.saved[1] != run::no_storage, rank % 2 == 1);
    EXPECT_EQ(first.saved[0] != run::no_storage, rank % 2 == 0);
  }
}

TEST(Topology, a_parameter_of_two_stages_is_held_by_the_first_and_copied_to_the_other) {
  const graph::Dag dag = chain_dag(4, 5000);
  const run::StepPlan plan = plan_on(dag, Topology(1, 2), {1});
  ASSERT_EQ(plan.tied_copies.size(), 1U);
  const int tied = dag.parameter("layer0.w");
  EXPECT_EQ(plan.tied_copies[0].parameter, tied);
  EXPECT_EQ(plan.tied_copies[0].stage, 1);
  EXPECT_EQ(plan.owner_of(tied), 0);
  for (int rank = 0; rank < 2; ++rank) {
    const run::StepBuilder builder(plan, rank, run::Purpose::training);
    EXPECT_EQ(builder.tied_weights[static_cast<std::size_t>(tied)] != run::no_storage, rank == 1);
    const int use = dag.parameters[static_cast<std::size_t>(tied)].uses[1];
    EXPECT_NE(builder.accumulators[0].uses[static_cast<std::size_t>(use)], run::no_storage)
        << "summed on stage 1, folded on stage 0";
  }
  EXPECT_TRUE(plan_on(dag, ring(), {1, 1}).tied_copies.empty()) << "both uses are on stage 0";
  EXPECT_THAT(refusal_of([&] { plan_on(dag, ring(), {1, 1, 1, 1}); }),
              HasSubstr("4 counts of micro-batches for 2 replicas"));
}

TEST(Topology, chunks_are_shared_out_evenly_or_are_runs_of_segments) {
  Topology folded(1, 2);
  folded.stage_of_chunk = {0, 1, 1, 0};
  EXPECT_THAT(folded.chunks_of(6), ElementsAre(0, 1, 1, 2, 3, 3));
  EXPECT_THAT(folded.stages_of(6), ElementsAre(0, 1, 1, 1, 0, 0));
  EXPECT_THAT(refusal_of([&] { folded.validate(3); }), HasSubstr("4 chunks for a model of 3 segments"));
  folded.chunk_of_segment = {0, 1, 2, 3};
  EXPECT_NO_THROW(folded.validate(4));
  folded.chunk_of_segment = {0, 0, 2, 3};
  EXPECT_THAT(refusal_of([&] { folded.validate(4); }), HasSubstr("do not ascend from 0 one by one"));
  folded.chunk_of_segment.clear();
  folded.stage_of_chunk = {0, 0};
  EXPECT_THAT(refusal_of([&] { folded.validate(4); }), HasSubstr("stage 1 has no chunk"));
  EXPECT_THAT(ring().chunks_of(4), ElementsAre(0, 1, 1, 2));
}

TEST(Topology, first_and_last_are_of_a_stage) {
  const graph::Dag dag = chain_dag(4, 5000);
  run::StepPlan plan = plan_on(dag, ring(), {1, 1});
  plan.activations.assign(4, run::Activations::recompute);
  EXPECT_TRUE(plan.recomputes_segment(0));
  EXPECT_TRUE(plan.recomputes_segment(1));
  EXPECT_FALSE(plan.recomputes_segment(2)) << "the last of stage 1";
  EXPECT_FALSE(plan.recomputes_segment(3)) << "the last of stage 0";
  plan.persistent_place = schedule::Place::host;
  plan.swapping.resident_segments = 1;
  EXPECT_EQ(plan.place_of(0), schedule::Place::device) << "the first of stage 0";
  EXPECT_EQ(plan.place_of(1), schedule::Place::device) << "the first of stage 1";
  EXPECT_EQ(plan.place_of(2), schedule::Place::host);
}

TEST(Topology, norm_blocks_of_all_stages_come_in_the_order_of_the_layout) {
  const graph::Dag dag = chain_dag(4, 5000);
  const run::StepPlan stages = plan_on(dag, ring(), {1, 1});
  const run::StepPlan whole = plan_on(dag, Topology(1), {1});
  const optim::detail::ScalarLayout of_stages(stages, true);
  const optim::detail::ScalarLayout of_whole(whole, true);
  // Each rank writes to its blocks where in the layout they begin.
  const auto read = [](const run::StepPlan& plan, const optim::detail::ScalarLayout& layout) {
    std::vector<std::int64_t> order;
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      for (const int rank : plan.buckets[b].group.members) {
        const auto& norms = layout.norms[static_cast<std::size_t>(rank)];
        std::int64_t blocks = norms[b + 1] - norms[b];
        for (const auto& [begin, end] : plan.buckets[b].pieces_of(rank)) {
          for (std::int64_t at = begin; at < end; at += run::norm_block, --blocks) {
            order.push_back(plan.buckets[b].begin + at);
          }
        }
        EXPECT_EQ(blocks, 0);
      }
    }
    return order;
  };
  const std::vector<std::int64_t> order = read(stages, of_stages);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order, read(whole, of_whole));
}

TEST(Topology, a_rank_without_a_loss_counts_zeros) {
  const graph::Dag dag = chain_dag(4, 5000);
  run::StepPlan plan = plan_on(dag, ring(), {1, 1});
  for (const int rank : {0, 1}) {
    run::StepBuilder builder(plan, rank, run::Purpose::training);
    run::add_micro_batches(builder);
    schedule::Instruction scalars;
    optim::detail::count_micro_batches(scalars, builder);
    const optim::ScalarsView view(builder, scalars, 0, run::Lists::added);
    optim::detail::read_losses(view, builder);
    const bool loss = rank == 0;
    EXPECT_EQ(optim::counted_of(scalars), loss ? optim::Counted::micro_batches : optim::Counted::nothing);
    EXPECT_EQ(scalars.reads.size(), loss ? 2U : 0U);
  }
}

TEST(Topology, bounds_are_of_all_its_chunks) {
  Topology topology(1, 3);
  EXPECT_NO_THROW(topology.validate_bounds(9)) << "none";
  topology.bounds = {0, 2, 7, 9};
  EXPECT_NO_THROW(topology.validate_bounds(9));
  EXPECT_THAT(refusal_of([&] { topology.validate_bounds(10); }), HasSubstr("4 entries for 3 chunks of a model of 10"));
  topology.bounds = {0, 7, 7, 9};
  EXPECT_THAT(refusal_of([&] { topology.validate_bounds(9); }), HasSubstr("do not ascend"));
  topology.bounds = {0, 2, 9};
  EXPECT_THAT(refusal_of([&] { topology.validate_bounds(9); }), HasSubstr("3 entries for 3 chunks"));
  topology.chunk_of_segment = {0, 1, 2};
  EXPECT_THAT(refusal_of([&] { topology.validate_bounds(9); }), HasSubstr("segments have their places"));
}

}  // namespace reef::test
