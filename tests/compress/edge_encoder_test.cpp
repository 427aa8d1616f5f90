#include <reef/pipeline/gpipe.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <reef/compress/detail/encoder.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/run/costs.hpp>
#include <reef/run/transfers.hpp>

#include "../run/two_layer_dag.hpp"

namespace reef::test {

namespace {

using schedule::Traffic;

/// Three stages of a chain, of which what goes forward takes half of its bytes.
struct Halved {
  graph::Dag dag = chain_dag(5, 100);
  run::StepPlan plan;

  Halved()
      : plan(run::make_step_plan(dag, {0, 1, 2, 3, 4, 5}, run::Topology(1, 3), 1, {2}, false)) {
    plan.segment_times = run::segment_times(plan, nullptr);
    pipeline::GPipe::plan(plan, pipeline::ScheduledOptions{});
    run::WireForm& form = plan.wire[static_cast<std::size_t>(Traffic::activation)];
    form.bytes = [](int /*edge*/, std::int64_t n) { return static_cast<Bytes>(n) * 2; };
  }
  Halved(const Halved&) = delete;

  [[nodiscard]] run::StepBuilder stage(int rank) const {
    run::StepBuilder builder(plan, rank, run::Purpose::training);
    pipeline::GPipe::add(builder);
    return builder;
  }
};

}  // namespace

TEST(EdgeEncoder, takes_the_place_of_copies_by_what_they_carry_and_changes_no_storage_of_others) {
  const Halved of;
  for (int rank = 0; rank < 3; ++rank) {
    run::StepBuilder builder = of.stage(rank);
    const schedule::Program before = builder.program;
    compress::detail::Encoder(builder).run();
    const schedule::Program& program = builder.program;
    for (std::size_t id = 0; id < before.storages.size(); ++id) {
      EXPECT_EQ(program.storages[id].bytes, before.storages[id].bytes) << before.storages[id].name;
    }
    ASSERT_EQ(program.round.size(), before.round.size());
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      const run::Instruction& was = before.round[i];
      const run::Instruction& is = program.round[i];
      const bool forward = was.traffic == Traffic::activation;
      if (was.kind == run::kinds::download) {
        EXPECT_EQ(is.kind, forward ? compress::kinds::encode : run::kinds::download);
      } else if (was.kind == run::kinds::upload) {
        EXPECT_EQ(is.kind, forward ? compress::kinds::decode : run::kinds::upload);
      } else if (was.kind == pipeline::kinds::send) {
        const Bytes slot = program.storages[run::SendView(is).payload.front().storage].bytes;
        EXPECT_EQ(slot, run::edge_bytes(of.plan, is.index));
        EXPECT_EQ(is.sends[0].bytes + (forward ? slot : 0), was.sends[0].bytes);
      }
      EXPECT_EQ(is.traffic, was.traffic);
    }
  }
}

TEST(EdgeEncoder, who_codes_waits_for_what_the_copy_has_waited_for) {
  const Halved of;
  run::StepBuilder builder = of.stage(0);
  std::vector<std::size_t> copies;
  for (std::size_t i = 0; i < builder.program.round.size(); ++i) {
    run::Instruction& copy = builder.program.round[i];
    if (copy.kind != run::kinds::download || copy.traffic != Traffic::activation) continue;
    copy.reads.push_back({0, 1});
    copy.after = {{0, 2}};
    copies.push_back(i);
  }
  ASSERT_FALSE(copies.empty());
  compress::detail::Encoder(builder).run();
  for (const std::size_t i : copies) {
    EXPECT_EQ(builder.program.round[i].after, (std::vector<run::Value>{{0, 2}, {0, 1}}));
  }
}

TEST(EdgeEncoder, refuses_a_message_whose_copy_does_not_say_what_it_carries) {
  const Halved of;
  run::StepBuilder builder = of.stage(0);
  for (run::Instruction& i : builder.program.round) {
    if (i.kind == run::kinds::download) i.traffic = Traffic::none;
  }
  std::string complaint;
  try {
    compress::detail::Encoder(builder).run();
  } catch (const ScheduleError& error) {
    complaint = error.what();
  }
  EXPECT_THAT(
      complaint,
      testing::HasSubstr(
          "Send(0, micro-batch 0) is to be encoded, but no copy of activation 0 has written"));
}

}  // namespace reef::test
