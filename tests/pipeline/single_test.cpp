#include <reef/pipeline/single.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/run/staging.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>

#include "../run/two_layer_dag.hpp"

namespace reef::test {

namespace {

using run::Purpose;
using schedule::Instruction;

template <class Optim>
schedule::Program program_of(const run::StepPlan& plan, int rank,
                             Purpose purpose = Purpose::training) {
  run::StepBuilder builder(plan, rank, purpose);
  Optim::reserve(builder);
  Optim::add(builder, pipeline::Single::add);
  return plan.discrete ? run::stage_transfers(builder.program) : builder.program;
}

template <class Optim>
std::vector<schedule::Program> programs_of(const run::StepPlan& plan,
                                           Purpose purpose = Purpose::training) {
  std::vector<schedule::Program> programs;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    programs.push_back(program_of<Optim>(plan, rank, purpose));
  return programs;
}

using AdamDdp = optim::Ddp<optim::AdamW>;
using AdamZero1 = optim::Zero1<optim::AdamW>;

int count(const schedule::Program& program, const std::string& kind) {
  int found = 0;
  for (const Instruction& instruction : program.round) found += instruction.kind == kind ? 1 : 0;
  return found;
}

}  // namespace

TEST(Single, many_micro_batches_are_placed_by_looking_at_few_regions_for_each) {
  const graph::Dag dag = chain_dag(4, 100);
  for (const Purpose purpose : {Purpose::training, Purpose::evaluation}) {
    double before = 0;
    for (const int count : {64, 512}) {
      const schedule::Program program = program_of<AdamZero1>(plan_of(dag, 1, {count}), 0, purpose);
      std::uint64_t looked_at = 0;
      schedule::place(program, &looked_at);
      const double each = static_cast<double>(looked_at) / count;
      if (before > 0) {
        EXPECT_LT(each, 2 * before) << count;  // eight times as many
      }
      before = each;
    }
  }
}

TEST(Single, runs_every_segment_of_every_micro_batch_once_forward_before_backward) {
  const graph::Dag dag = chain_dag(5, 100);
  const run::StepPlan plan = plan_of(dag, 2, {3, 2});
  const schedule::Program program = program_of<AdamDdp>(plan, 0);
  std::map<std::pair<int, int>, int> forward;
  std::map<std::pair<int, int>, int> backward;
  int position = 0;
  for (const Instruction& i : program.round) {
    const std::pair key{i.index, i.micro_batch};
    if (i.kind == "Forward") {
      EXPECT_TRUE(forward.insert({key, position}).second);
    } else if (i.kind == "Backward") {
      EXPECT_TRUE(backward.insert({key, position}).second);
    }
    ++position;
  }
  EXPECT_EQ(forward.size(), 15U);
  EXPECT_EQ(backward.size(), 15U);
  for (const auto& [key, at] : forward) EXPECT_LT(at, backward.at(key));
}

TEST(Single, overwrites_gradients_in_the_first_micro_batch_of_a_fold_and_adds_in_the_others) {
  const graph::Dag dag = chain_dag(3, 100);
  const run::StepPlan plan = plan_of(dag, 1, {2, 3}, 2);
  int backwards = 0;
  for (const Instruction& i : program_of<AdamDdp>(plan, 0).round) {
    if (i.kind != run::kinds::backward || i.index != 0) continue;
    ++backwards;
    const bool first = i.micro_batch == 0 || i.micro_batch == 2;
    EXPECT_EQ(i.accumulates.empty(), first) << i.text();
  }
  EXPECT_EQ(backwards, 2 + 3) << "one for each micro-batch";
}

TEST(Single, programs_of_all_ranks_are_proved_together) {
  const graph::Dag dag = chain_dag(5, 5000);
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool discrete : {false, true}) {
      std::vector<int> counts;
      for (int r = 0; r < ranks; ++r) counts.push_back(1 + r % 3);
      const run::StepPlan plan = plan_of(dag, ranks, counts, 1, discrete);
      for (const Purpose purpose : {Purpose::training, Purpose::evaluation}) {
        EXPECT_NO_THROW(schedule::verify(programs_of<AdamDdp>(plan, purpose)));
        EXPECT_NO_THROW(schedule::verify(programs_of<AdamZero1>(plan, purpose)));
      }
    }
  }
}

TEST(Single, a_program_with_a_version_or_an_order_spoiled_is_refused) {
  const graph::Dag dag = chain_dag(4, 5000);
  const run::StepPlan plan = plan_of(dag, 2, {1, 1});
  auto stale = programs_of<AdamZero1>(plan);
  for (Instruction& i : stale[1].round) {
    if (i.kind == "GatherWeights") i.writes.clear();
  }
  EXPECT_THROW(schedule::verify(stale), ScheduleError);

  auto swapped = programs_of<AdamZero1>(plan);
  std::vector<Instruction*> scatters;
  for (Instruction& i : swapped[1].round) {
    if (i.kind == "ReduceScatter") scatters.push_back(&i);
  }
  ASSERT_GE(scatters.size(), 2U);
  std::swap(*scatters[0], *scatters[1]);
  EXPECT_THROW(schedule::verify(swapped), ScheduleError);
}

TEST(Single, communicates_once_a_step_however_many_micro_batches_it_has) {
  const graph::Dag dag = chain_dag(4, 5000);
  const auto one = schedule::simulate(programs_of<AdamDdp>(plan_of(dag, 2, {1, 1})),
                                      schedule::World::uniform(2, {}, {}));
  const auto many = schedule::simulate(programs_of<AdamDdp>(plan_of(dag, 2, {8, 8})),
                                       schedule::World::uniform(2, {}, {}));
  EXPECT_EQ(one.wire_bytes, many.wire_bytes);
  EXPECT_GT(one.wire_bytes[0], 0U);
}

TEST(Single, zero1_sends_what_ddp_sends) {
  const graph::Dag dag = chain_dag(4, 50000);
  for (const int ranks : {2, 3, 4}) {
    const run::StepPlan plan =
        plan_of(dag, ranks, std::vector<int>(static_cast<std::size_t>(ranks), 1));
    const auto world = schedule::World::uniform(ranks, {}, {});
    EXPECT_EQ(schedule::simulate(programs_of<AdamDdp>(plan), world).wire_bytes,
              schedule::simulate(programs_of<AdamZero1>(plan), world).wire_bytes);
  }
}

TEST(Single, reductions_run_under_the_backward_of_the_segments_before) {
  const graph::Dag dag = chain_dag(9, 8192);
  const run::StepPlan plan = plan_of(dag, 2, {1, 1});
  // A backward takes 2 s; a bucket is reduced in 0.25 s and gathered in as much.
  const schedule::Machine machine{100, 0, 0, 0};
  const schedule::Link link{0, 4 * (16384 + static_cast<double>(comm::header_bytes))};
  const auto programs = programs_of<AdamDdp>(plan);
  const auto hidden = schedule::simulate(programs, schedule::World::uniform(2, machine, link), 1);
  const auto compute = schedule::simulate(programs, schedule::World::uniform(2, machine, {}), 1);
  double communication = 0;
  for (const auto& span : hidden.spans) {
    if (span.rank == 0 && span.lane == schedule::Lane::reduce)
      communication += span.end - span.begin;
  }
  // Only the last bucket and the scalars have no backward to hide under.
  EXPECT_GT(communication, 8 * 0.5);
  EXPECT_LT(hidden.total - compute.total, 0.6);
}

TEST(Single, keeps_one_step_of_state_per_weight_and_less_when_sharded) {
  const graph::Dag dag = chain_dag(4, 1 << 20);
  const run::StepPlan plan = plan_of(dag, 4, {1, 1, 1, 1});
  const auto bytes = [](const schedule::Program& program) {
    return schedule::place(program).device_bytes;
  };
  const auto weights = static_cast<double>(Bytes{3} << 22);
  const Bytes ddp = bytes(program_of<AdamDdp>(plan, 0));
  const Bytes zero1 = bytes(program_of<AdamZero1>(plan, 0));
  // Three distinct parameters and one tied use: weights, gradients and two states of each.
  EXPECT_NEAR(static_cast<double>(ddp), 4 * weights + weights / 3, 1e5);
  EXPECT_NEAR(static_cast<double>(ddp - zero1), 2 * weights * 3 / 4, 1e5);
}

TEST(Single, an_evaluation_keeps_its_hands_off_weights_and_state) {
  const graph::Dag dag = chain_dag(4, 5000);
  const run::StepPlan plan = plan_of(dag, 2, {2, 2});
  const schedule::Program training = program_of<AdamZero1>(plan, 1);
  const schedule::Program evaluation = program_of<AdamZero1>(plan, 1, Purpose::evaluation);
  EXPECT_EQ(count(evaluation, "Backward"), 0);
  EXPECT_EQ(count(evaluation, "Update"), 0);
  const schedule::Placement a = schedule::place(training);
  const schedule::Placement b = schedule::place(evaluation);
  Bytes kept = 0;
  for (std::size_t id = 0; id < evaluation.storages.size(); ++id) {
    if (evaluation.storages[id].life == schedule::Life::round) continue;
    ASSERT_EQ(evaluation.storages[id].name, training.storages[id].name);
    EXPECT_EQ(a.offset[id], b.offset[id]);
    kept = std::max(kept, b.offset[id] + evaluation.storages[id].bytes);
  }
  const schedule::detail::Lifetimes lifetimes(evaluation);
  for (schedule::StorageId id = 0; id < evaluation.storages.size(); ++id) {
    const schedule::Storage& storage = evaluation.storages[id];
    const bool moves =
        storage.life == schedule::Life::round && storage.parent == schedule::no_storage;
    if (moves && storage.place == schedule::Place::device && lifetimes.alive(id) &&
        storage.bytes > 0) {
      EXPECT_GE(b.offset[id], kept) << storage.name;
    }
  }
}

}  // namespace reef::test
