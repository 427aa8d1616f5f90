#include <reef/pipeline/gpipe.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include <reef/pipeline/kinds.hpp>
#include <reef/run/costs.hpp>
#include <reef/run/transfers.hpp>

#include "../run/operand_parts.hpp"
#include "../run/two_layer_dag.hpp"

namespace reef::test {

TEST(PipelineViews, parts_of_what_stages_exchange_are_a_partition_and_replaced_alone) {
  const graph::Dag dag = chain_dag(5, 100);
  run::StepPlan plan =
      run::make_step_plan(dag, {0, 1, 2, 3, 4, 5}, run::Topology(1, 3), 1, {2}, false);
  plan.segment_times = run::segment_times(plan, nullptr);
  pipeline::GPipe::plan(plan, pipeline::ScheduledOptions{});
  const auto parts_of = [](const run::StepBuilder& /*builder*/, run::Instruction& i) -> Parts {
    if (i.kind == pipeline::kinds::send) return {run::SendView(i).payload};
    if (i.kind == pipeline::kinds::receive) return {run::ReceiveView(i).payload};
    if (i.kind == run::kinds::upload || i.kind == run::kinds::download) {
      const run::CopyView view(i);
      return {view.from, view.to};
    }
    return {};
  };
  std::set<std::string> kinds;
  for (int rank = 0; rank < 3; ++rank) {
    run::StepBuilder builder(plan, rank, run::Purpose::training);
    pipeline::GPipe::add(builder);
    look_at(builder, kinds, parts_of);
    for (const run::Instruction& i : std::as_const(builder.program.round)) {
      if (i.kind != pipeline::kinds::send) continue;
      EXPECT_EQ(&run::SendView(i).message(), &i.sends[0]);
    }
  }
  EXPECT_THAT(kinds, testing::ElementsAre("Download", "Receive", "Send", "Upload"));
}

}  // namespace reef::test
