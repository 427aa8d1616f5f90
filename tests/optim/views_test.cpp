#include <reef/optim/views.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/single.hpp>

#include "../run/operand_parts.hpp"
#include "../run/two_layer_dag.hpp"

namespace reef::test {

namespace {

using run::Instruction;
using run::Purpose;
using run::StepBuilder;

/// The parts of an instruction of an optimizer over AdamW; of other kinds none.
struct PartsOf {
  bool overlaps = false;

  Parts operator()(const StepBuilder& builder, Instruction& i) const {
    namespace kinds = optim::kinds;
    constexpr std::size_t states = optim::AdamW::states;
    if (i.kind == kinds::count) {
      const optim::CountView v(i);
      return {v.loss, v.loss_weight, v.counts};
    }
    if (i.kind == kinds::norms || i.kind == kinds::own_norms) {
      const optim::NormsView v(i);
      return {v.gradient, v.sums};
    }
    if (i.kind == kinds::scalars || i.kind == kinds::own_decide) {
      const optim::ScalarsView v(builder, i);
      return {v.losses, v.loss_weights, v.counts, v.sums, v.result};
    }
    if (i.kind == kinds::decide) {
      const optim::DecideView v(i);
      return {v.scalars, v.verdict};
    }
    if (i.kind == kinds::estimate || (i.kind == kinds::update && overlaps)) {
      const optim::OutgoingView v(builder, i, states);
      return {v.gradient, v.verdict, v.outgoing, v.states, v.master};
    }
    if (i.kind == kinds::update) {
      const optim::UpdateView v(builder, i, states);
      return {v.gradient, v.verdict, v.weights, v.target, v.workspace, v.states, v.master};
    }
    if (i.kind == kinds::hand_over) {
      const optim::HandOverView v(builder, i);
      return {v.gradient, v.uses, v.sum};
    }
    return of_an_outer_step(builder, i);
  }

  static Parts of_an_outer_step(const StepBuilder& builder, Instruction& i) {
    namespace kinds = optim::kinds;
    constexpr std::size_t outer_states = optim::Nesterov::states;
    if (i.kind == kinds::differences) {
      const optim::DifferencesView v(i);
      return {v.own, v.outer, v.difference};
    }
    if (i.kind == kinds::outer_update) {
      const optim::OuterUpdateView v(i, outer_states);
      return {v.sum, v.result, v.states, v.weights};
    }
    if (i.kind == kinds::merge) {
      const optim::MergeView v(builder, i);
      return {v.arrived, v.weights, v.merged, v.master};
    }
    if (i.kind == kinds::outer_begin) {
      const auto pieces = run::fragment_pieces(builder.plan, builder.rank());
      const std::size_t count =
          optim::detail::pieces_in(pieces, static_cast<std::size_t>(i.index)).size();
      const optim::OuterBeginView v(builder, i, count, outer_states);
      return {v.arrived, v.weights, v.begun, v.leaving, v.states, v.start, v.master};
    }
    for (const auto kind : {kinds::reduce_scatter, kinds::gather_gradients, kinds::gather_weights,
                            kinds::reduce_weights, kinds::gather_differences, kinds::gather_outer,
                            kinds::gather_committed}) {
      if (i.kind != kind) continue;
      const run::CollectiveView v(i);
      return {v.given, v.taken};
    }
    for (const auto kind :
         {kinds::publish, kinds::install, kinds::hand_counts, kinds::hand_out}) {
      if (i.kind != kind) continue;
      const run::CopyView v(i);
      return {v.from, v.to};
    }
    return {};
  }
};

template <class Optim>
void look(std::set<std::string>& kinds, run::StepPlan plan, std::vector<Purpose> purposes,
          int variants = 1) {
  if constexpr (optim::overlapping_policy<Optim>) {
    plan.phases_per_step = Optim::phases_per_step;
    plan.own_master = true;
  }
  for (const Purpose purpose : purposes) {
    for (int variant = 0; variant < variants; ++variant) {
      for (int rank = 0; rank < plan.ranks(); ++rank) {
        StepBuilder builder(plan, rank, purpose, variant);
        Optim::reserve(builder);
        Optim::add(builder, pipeline::Single::add);
        look_at(builder, kinds, PartsOf{optim::overlapping_policy<Optim>});
      }
    }
  }
}

}  // namespace

TEST(OptimViews, parts_of_a_synchronous_step_are_a_partition_and_replaced_alone) {
  const graph::Dag dag = chain_dag(5, 5000);
  std::set<std::string> kinds;
  for (const bool checks : {true, false}) {
    for (const bool master : {true, false}) {
      run::StepPlan plan = plan_of(dag, 2, {2, 1});
      plan.waits_for_global_norm = checks;
      plan.own_master = master;
      look<optim::Ddp<optim::AdamW>>(kinds, plan, {Purpose::training, Purpose::evaluation});
      look<optim::Zero1<optim::AdamW>>(kinds, plan, {Purpose::training, Purpose::evaluation});
      plan.matrices.of_parameter.assign(dag.parameters.size(), run::WholeMatrices::Matrix{50, 100, 640, 1e6});
      plan.states_of_parameter.assign(dag.parameters.size(), 1);
      for (run::Bucket& bucket : plan.buckets) bucket.shards = {0, bucket.size(), bucket.size()};
      look<optim::Zero1<optim::AdamW>>(kinds, plan, {Purpose::training, Purpose::evaluation});
    }
  }
  EXPECT_THAT(kinds, testing::ElementsAre("Decide", "GatherGradients", "GatherWeights", "Norms",
                                          "ReduceScatter", "Scalars", "Update"));
}

TEST(OptimViews, parts_of_overlapping_rounds_are_a_partition_and_replaced_alone) {
  const graph::Dag dag = chain_dag(5, 5000);
  std::set<std::string> kinds;
  const std::vector<Purpose> all{Purpose::training, Purpose::prologue, Purpose::evaluation};
  look<optim::Acco<optim::AdamW>>(kinds, plan_of(dag, 2, {2, 1}), all);
  look<optim::Acco<optim::AdamW>>(kinds, plan_of(dag, 1, {2, 1}, 2), all);
  look<optim::AccoWp<optim::AdamW>>(kinds, plan_of(dag, 2, {2, 1}), {Purpose::gather_committed});
  EXPECT_THAT(kinds, testing::ElementsAre("Count", "Decide", "Estimate", "GatherWeights",
                                          "HandCounts", "HandOver", "Install", "Norms", "Publish",
                                          "ReduceScatter", "Scalars", "Update"));
}

TEST(OptimViews, parts_of_outer_steps_are_a_partition_and_replaced_alone) {
  using Overlap = run::OuterSchedule::Overlap;
  const graph::Dag dag = chain_dag(5, 5000);
  std::set<std::string> kinds;
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    for (const bool master : {true, false}) {
      run::StepPlan plan = plan_of(dag, 2, {2, 2});
      plan.outer_schedule = {4, 2, overlap};
      plan.own_master = master;
      look<optim::DiLoCo<optim::AdamW>>(kinds, plan,
                                        {Purpose::training, Purpose::gather_committed}, 3);
    }
  }
  EXPECT_THAT(kinds,
              testing::ElementsAre("GatherCommitted", "GatherOuter", "HandOut", "Merge",
                                   "OuterBegin", "OuterUpdate", "OwnDecide", "OwnNorms", "Publish",
                                   "ReduceWeights", "Update"));
}

TEST(OptimViews, parts_of_outer_steps_that_each_rank_takes_whole_are_a_partition_and_replaced_alone) {
  using Overlap = run::OuterSchedule::Overlap;
  const graph::Dag dag = chain_dag(5, 5000);
  std::set<std::string> kinds;
  for (const Overlap overlap : {Overlap::none, Overlap::mix}) {
    for (const bool master : {true, false}) {
      run::StepPlan plan = plan_of(dag, 2, {2, 2});
      plan.outer_schedule = {4, 2, overlap};
      plan.own_master = master;
      plan.wire[static_cast<std::size_t>(schedule::Traffic::pseudo_gradient)].bytes = [](int, std::int64_t n) {
        return static_cast<Bytes>(n);
      };
      look<optim::DiLoCo<optim::AdamW>>(kinds, plan, {Purpose::training, Purpose::gather_committed}, 3);
    }
  }
  EXPECT_THAT(kinds, testing::ElementsAre("Differences", "GatherDifferences", "Merge", "OuterUpdate", "OwnDecide",
                                          "OwnNorms", "Publish", "Update"));
}

TEST(OptimViews, an_update_says_what_is_which) {
  const graph::Dag dag = chain_dag(3, 100);
  run::StepPlan plan = plan_of(dag, 1, {1});
  plan.own_master = true;
  StepBuilder builder(plan, 0, Purpose::training);
  optim::Ddp<optim::AdamW>::reserve(builder);
  optim::Ddp<optim::AdamW>::add(builder, pipeline::Single::add);
  int updates = 0;
  for (const Instruction& i : builder.program.round) {
    if (i.kind != optim::kinds::update) continue;
    const optim::UpdateView view(builder, i, optim::AdamW::states);
    const auto b = static_cast<std::size_t>(i.index);
    EXPECT_EQ(view.gradient.front().storage, builder.reduced[b]);
    EXPECT_EQ(view.verdict.front().storage, builder.verdict);
    EXPECT_EQ(view.weights.front(), (run::Value{builder.weights[b], 0}));
    EXPECT_EQ(view.target.front(), (run::Value{builder.weights[b], 1}));
    const std::string of = " of weights " + std::to_string(b);
    EXPECT_EQ(builder.program.name(view.states[0]), "state.0" + of);
    EXPECT_EQ(builder.program.name(view.states[1]), "state.1" + of);
    EXPECT_EQ(builder.program.name(view.master.front()), "master" + of);
    EXPECT_TRUE(view.workspace.empty());
    ++updates;
  }
  EXPECT_EQ(updates, static_cast<int>(plan.buckets.size()));
}

TEST(OptimViews, an_update_of_whole_matrices_has_a_place_to_work_in_and_keeps_what_they_need) {
  const graph::Dag dag = chain_dag(3, 100);
  run::StepPlan plan = plan_of(dag, 1, {1});
  plan.matrices.of_parameter.assign(dag.parameters.size(), std::nullopt);
  plan.matrices.of_parameter[0] = {10, 10, 640, 1e6};
  plan.states_of_parameter.assign(dag.parameters.size(), optim::AdamW::states);
  plan.states_of_parameter[0] = 1;
  StepBuilder builder(plan, 0, Purpose::training);
  optim::Ddp<optim::AdamW>::reserve(builder);
  optim::Ddp<optim::AdamW>::add(builder, pipeline::Single::add);
  for (const Instruction& i : builder.program.round) {
    if (i.kind != optim::kinds::update) continue;
    const optim::UpdateView view(builder, i, optim::AdamW::states);
    const bool has_it = plan.bucket_of_parameter[0] == i.index;
    const auto bytes = [&](run::Value value) { return builder.program.storages[value.storage].bytes; };
    EXPECT_EQ(bytes(view.workspace.front()), has_it ? 640U : 0U);
    EXPECT_EQ(i.cost.flops, has_it ? 1e6 : 0);
    const auto all = static_cast<Bytes>(plan.buckets[static_cast<std::size_t>(i.index)].size()) * sizeof(float);
    EXPECT_EQ(bytes(view.states[0]), all);
    EXPECT_EQ(bytes(view.states[1]), has_it ? 0U : all) << "one parameter a bucket";
  }
}

}  // namespace reef::test
