#include <reef/run/views.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <reef/run/instructions.hpp>
#include <reef/run/staging.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/views.hpp>

#include "operand_parts.hpp"
#include "two_layer_dag.hpp"

namespace reef::test {

using run::Instruction;
using run::StepBuilder;
using run::Value;
using testing::ElementsAre;
using testing::IsEmpty;

/// The parts of an instruction, by the view of its kind; of kinds with operands of one sort alone none.
Parts parts_of(const StepBuilder& builder, Instruction& i) {
  namespace kinds = run::kinds;
  if (i.kind == kinds::batch) {
    const run::BatchView v(builder, i);
    return {v.inputs, v.loss_weight};
  }
  if (i.kind == kinds::forward) {
    const run::ForwardView v(builder, i);
    return {v.weights, v.inputs, v.outputs, v.saved, v.workspace};
  }
  if (i.kind == kinds::recompute) {
    const run::RecomputeView v(builder, i);
    return {v.weights, v.inputs, v.outputs, v.saved, v.workspace};
  }
  if (run::backward_part(i.kind) != graph::BackwardPart::none) {
    const run::BackwardView v(builder, i);
    return {v.weights,
            v.tensors,
            v.saved,
            v.output_gradients,
            v.written_input_gradients,
            v.added_input_gradients,
            v.workspace,
            v.pending,
            v.gradients};
  }
  if (i.kind == kinds::add_gradients) {
    const run::AddGradientsView v(builder, i);
    return {v.from, v.gradients};
  }
  if (i.kind == kinds::fold_uses) {
    const run::FoldUsesView v(builder, i);
    return {v.uses, v.gradient};
  }
  if (i.kind == kinds::fold_rank) {
    const run::FoldRankView v(i);
    return {v.gradient, v.sum};
  }
  if (i.kind == kinds::send_tied) return {run::SendView(i).payload};
  if (i.kind == kinds::receive_tied) return {run::ReceiveView(i).payload};
  if (i.kind == kinds::download_tied) {
    const run::DownloadTiedView v(i);
    return {v.weights, v.parameter};
  }
  if (i.kind == swap::kinds::evict) {
    const swap::EvictView v(i);
    return {v.from, v.to};
  }
  for (const auto copy : {kinds::download, kinds::upload, swap::kinds::load,
                          swap::kinds::load_gradients, swap::kinds::write_back,
                          swap::kinds::stash, swap::kinds::restore}) {
    if (i.kind != copy) continue;
    const run::CopyView v(i);
    return {v.from, v.to};
  }
  return {};
}

/// A step of a chain of five segments, tied at its ends, on `stages` ranks that each hold some.
struct Case {
  graph::Dag dag = chain_dag(5, 100);
  run::StepPlan plan;

  explicit Case(int stages = 1, std::vector<int> micro_batches = {2}, int virtual_ranks = 1)
      : plan(run::make_step_plan(dag, {0, 1, 2, 3, 4, 5}, run::Topology(1, stages), virtual_ranks,
                                 std::move(micro_batches), false)) {}
  Case(const Case&) = delete;

  /// What every pipeline writes, without what goes between stages.
  static void add_model(StepBuilder& builder) {
    int j = run::add_micro_batches(builder);
    const int folds = builder.plan.virtual_ranks;
    for (int fold = 0; fold < folds; ++fold) {
      for (int k = 0; k < builder.micro_batches_of(fold); ++k, ++j) {
        const std::vector<int>& segments = builder.segments();
        for (const int s : segments) run::add_forward(builder, s, j);
        for (auto s = segments.rbegin(); builder.trains() && s != segments.rend(); ++s) {
          if (builder.plan.halves.empty()) {
            run::add_backward(builder, *s, j, fold, k == 0);
          } else {
            run::add_input_backward(builder, *s, j, fold, k == 0);
          }
        }
        for (const int s : segments) {
          if (!builder.trains() || builder.plan.halves.empty()) break;
          run::add_weight_backward(builder, s, j, fold, k == 0);
        }
      }
      if (builder.trains()) run::add_folds(builder, fold);
    }
  }

  [[nodiscard]] StepBuilder model(int rank = 0,
                                  run::Purpose purpose = run::Purpose::training) const {
    StepBuilder builder(plan, rank, purpose);
    add_model(builder);
    run::add_tied_weights(builder);
    return builder;
  }
};

TEST(Views, parts_of_the_model_are_a_partition_and_replaced_alone) {
  std::set<std::string> kinds;
  const auto look = [&](const Case& of, run::Purpose purpose = run::Purpose::training) {
    for (int rank = 0; rank < of.plan.ranks(); ++rank) {
      StepBuilder builder = of.model(rank, purpose);
      look_at(builder, kinds, parts_of);
    }
  };
  look(Case());
  look(Case(), run::Purpose::evaluation);
  look(Case(3));
  look(Case(1, {2, 1}, 2));
  Case again;
  again.plan.activations.assign(5, run::Activations::recompute);
  look(again);
  Case rounded;
  rounded.plan.gradient = Element::bfloat16;
  look(rounded);
  for (const bool splits : {false, true}) {
    for (const Element gradient : {Element::float32, Element::bfloat16}) {
      Case halves;
      for (graph::Node& node : halves.dag.nodes) node.signature.splits_backward = splits;
      halves.plan.gradient = gradient;
      halves.plan.split_backwards();
      EXPECT_EQ(halves.plan.halves[1].input_half_has_parameters, !splits);
      look(halves);
    }
  }
  EXPECT_THAT(kinds, ElementsAre("AddGradients", "Backward", "BackwardInput", "BackwardWeight", "Batch", "Download",
                                 "DownloadTied", "FoldRank",
                                 "FoldUses", "Forward", "ReceiveTied", "Recompute", "SendTied",
                                 "Upload"));
}

TEST(Views, parts_of_what_is_swapped_are_a_partition_and_replaced_alone) {
  std::set<std::string> kinds;
  for (const auto activations : run::all_activations) {
    for (const bool writes_back : {false, true}) {
      for (const bool rounds : {false, true}) {
        Case of;
        of.plan.persistent_place = run::Place::host;
        of.plan.activations.assign(5, activations);
        of.plan.swapping = {.weight_slots = 2, .per_micro_batch = true, .writes_back = writes_back};
        if (rounds) of.plan.gradient = Element::bfloat16;
        StepBuilder builder = of.model();
        swap::Atom<>::add(builder);
        look_at(builder, kinds, parts_of);
      }
    }
  }
  EXPECT_THAT(kinds, testing::IsSupersetOf({"Evict", "Load", "LoadGradients", "Restore", "Stash",
                                            "WriteBack"}));
}

TEST(Views, what_is_staged_is_copied) {
  std::set<std::string> kinds;
  const Case of(2);
  StepBuilder builder = of.model(1);
  builder.program = run::stage_transfers(std::move(builder.program));
  look_at(builder, kinds, parts_of);
  EXPECT_THAT(kinds, testing::IsSupersetOf({"Download", "Upload"}));
}

TEST(Views, parts_are_what_was_written) {
  const Case of;
  StepBuilder builder = of.model();
  const auto values = [](const std::vector<run::StorageId>& storages, const std::vector<int>& ids) {
    std::vector<Value> result;
    for (const int id : ids) result.push_back({storages[static_cast<std::size_t>(id)], 0});
    return result;
  };
  int looked_at = 0;
  for (const Instruction& i : std::as_const(builder.program.round)) {
    if (i.index < 0 || i.micro_batch < 0) continue;
    const auto s = static_cast<std::size_t>(i.index);
    const graph::Segment& segment = of.plan.segments[s];
    const auto& storages = builder.micro_batches[static_cast<std::size_t>(i.micro_batch)];
    if (i.kind == run::kinds::forward) {
      const run::ForwardView v(builder, i);
      EXPECT_EQ(v.weights.values(), builder.weights_of(segment));
      EXPECT_EQ(v.inputs.values(), values(storages.tensors, segment.boundary_inputs));
      EXPECT_EQ(v.outputs.values(), values(storages.tensors, segment.boundary_outputs));
      EXPECT_THAT(v.saved.values(), ElementsAre(Value{storages.saved[s], 0}));
      EXPECT_THAT(v.workspace.values(), ElementsAre(Value{storages.forward_workspace[s], 0}));
      ++looked_at;
    } else if (i.kind == run::kinds::backward) {
      const run::BackwardView v(builder, i);
      EXPECT_EQ(v.weights.values(), builder.weights_of(segment));
      EXPECT_EQ(v.tensors.values(), values(storages.tensors, segment.backward_reads));
      EXPECT_THAT(v.saved.values(), ElementsAre(Value{storages.saved[s], 0}));
      EXPECT_EQ(v.output_gradients.values(), values(storages.gradients, segment.output_gradients));
      for (std::size_t k = 0; k < segment.input_gradients.size(); ++k) {
        const auto id = static_cast<std::size_t>(segment.input_gradients[k]);
        EXPECT_EQ(v.input_gradient(k).front(), (Value{storages.gradients[id], 0}));
        EXPECT_EQ(v.input_gradient(k).list() == &i.accumulates,
                  static_cast<bool>(segment.input_gradient_accumulates[k]));
      }
      EXPECT_THAT(v.workspace.values(), ElementsAre(Value{storages.backward_workspace[s], 0}));
      EXPECT_EQ(v.gradients.values(), builder.gradients_of(i.index));
      ++looked_at;
    }
  }
  EXPECT_EQ(looked_at, 2 * 2 * 5);
}

TEST(Views, a_part_that_a_program_has_not_is_empty) {
  const Case of;
  StepBuilder builder = of.model(0, run::Purpose::evaluation);
  const auto forward =
      std::find_if(builder.program.round.begin(), builder.program.round.end(),
                   [](const Instruction& i) { return i.kind == run::kinds::forward; });
  ASSERT_NE(forward, builder.program.round.end());
  EXPECT_TRUE(run::ForwardView(builder, *forward).saved.empty());
  EXPECT_THAT(run::PartOf<Instruction>().values(), IsEmpty());
}

TEST(Views, too_few_operands_are_refused_and_too_many_where_none_may_follow) {
  const Case of;
  const StepBuilder builder = of.model();
  const auto with = [&](auto change) {
    for (const Instruction& i : builder.program.round) {
      if (i.kind != run::kinds::forward) continue;
      Instruction changed = i;
      change(changed);
      return changed;
    }
    return Instruction{};
  };
  const auto refusal = [&](const Instruction& i) -> std::string {
    try {
      const run::ForwardView view(builder, i);
      return "";
    } catch (const ScheduleError& error) {
      return error.what();
    }
  };
  const auto less = with([](Instruction& i) { i.writes.pop_back(); });
  const auto more = with([](Instruction& i) { i.writes.push_back({0, 0}); });
  const auto waits = with([](Instruction& i) { i.reads.push_back({0, 0}); });
  EXPECT_THAT(refusal(less), testing::HasSubstr("Forward(0, micro-batch 0) writes 2 values, and needs more"));
  EXPECT_THAT(refusal(more), testing::HasSubstr("writes 4 values, and has a use for 3"));
  EXPECT_EQ(refusal(waits), "");
  Instruction copy = waits;
  const run::ForwardView view(builder, copy);
  EXPECT_THROW(view.workspace.set({}), ScheduleError);
}

TEST(
    Views,
    what_copies_and_collectives_read_beyond_their_operands_they_wait_for_as_for_what_they_come_after) {
  const schedule::Value early{7, 0};
  const schedule::Value late{8, 0};
  Instruction copy;
  run::CopyView(copy, {{1, 0}, {2, 0}}, {{3, 0}, {4, 0}});
  Instruction collective;
  run::CollectiveView(collective, {1, 0}, {3, 0});
  for (Instruction* const i : {&copy, &collective}) {
    i->reads.push_back(late);
    i->after = {early};
  }
  EXPECT_EQ(run::waits_of(copy, run::CopyView(copy)), (std::vector{early, late}));
  EXPECT_EQ(run::waits_of(collective, run::CollectiveView(collective)), (std::vector{early, late}));
  run::CollectiveView(collective, {5, 0}, {6, 0});  // written anew
  EXPECT_EQ(collective.reads, (std::vector{schedule::Value{5, 0}}));
}

}  // namespace reef::test
