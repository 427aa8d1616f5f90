// Orders of pipelines in virtual time: the asynchronous model is what the simulator says of their programs.

#include <reef/plan/pipeline_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>

#include "../support/random_order.hpp"

namespace reef::test {
namespace {

using plan::PipelineModel;
using testing::HasSubstr;

/// By rank, when instructions of the compute lane end, in their order.
std::vector<std::vector<Seconds>> simulated(const PipelineModel& model) {
  auto programs = plan::programs_of(model);
  schedule::order_transfers(programs, model.times.world);
  schedule::verify(programs);
  std::vector<std::vector<Seconds>> ends(programs.size());
  for (const auto& span : schedule::simulate(programs, model.times.world, 1).spans) {
    if (span.lane == schedule::Lane::compute) {
      ends[static_cast<std::size_t>(span.rank)].push_back(span.end);
    }
  }
  for (auto& of_rank : ends) std::sort(of_rank.begin(), of_rank.end());
  return ends;
}

template <class Error>
std::string complaint_of(const PipelineModel& model) {
  try {
    plan::estimate(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PipelineModel, tasks_end_when_the_simulator_says) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineModel model = random_model(seed);
    const plan::PipelineEstimate estimate = plan::estimate(model);
    EXPECT_EQ(estimate.task_ends, simulated(model));
    Seconds busy = 0;
    for (const auto& tasks : model.order.tasks) {
      for (const auto& task : tasks) busy += model.times.of(task);
    }
    EXPECT_DOUBLE_EQ(estimate.bubble, 1 - busy / (estimate.makespan * model.order.ranks()));
  }
}

TEST(PipelineModel, shared_uplinks_are_the_simulators) {
  int slower = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    PipelineModel model = random_model(seed);
    const Seconds free = plan::estimate(model).makespan;
    for (auto& machine : model.times.world.machines) machine.uplink_bytes_per_second = 1;
    const plan::PipelineEstimate estimate = plan::estimate(model);
    EXPECT_EQ(estimate.task_ends, simulated(model));
    slower += estimate.makespan > free ? 1 : 0;
  }
  EXPECT_GT(slower, 10);
}

TEST(PipelineModel, what_is_produced_first_is_first_in_the_order_of_messages) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineModel model = random_model(seed);
    const auto ends = plan::estimate(model).task_ends;
    const auto programs = plan::programs_of(model);
    for (const auto& transfer : schedule::free_transfers(programs, model.times.world)) {
      // The task behind which the send stands.
      int task = -1;
      for (std::size_t i = 0; i < transfer.send; ++i) {
        task += programs[transfer.sender].round[i].lane == schedule::Lane::compute ? 1 : 0;
      }
      EXPECT_EQ(transfer.produced, ends[transfer.sender][static_cast<std::size_t>(task)]);
    }
  }
}

TEST(PipelineModel, ranks_that_wait_in_a_circle_are_named) {
  PipelineModel model{plan::parse_pipeline_order("F0 B0 F1 B1\nF0 F1 B0 B1\n")};
  model.times = plan::PipelineTimes::even(model.order, 1, 1, 1);
  const std::string said = complaint_of<ScheduleError>(model);
  EXPECT_THAT(said, HasSubstr("rank 0 waits at B0 for B0 of rank 1"));
  EXPECT_THAT(said, HasSubstr("rank 1 waits at F1 for F1 of rank 0"));
  EXPECT_THAT(said, HasSubstr("fix: "));
  model.order = plan::parse_pipeline_order("1F0 0F0 1B0 0B0\n");
  model.times = plan::PipelineTimes::even(model.order, 1, 1, 1);
  EXPECT_THAT(complaint_of<ScheduleError>(model),
              HasSubstr("rank 0 waits at 1F0 for 0F0 of rank 0"));
}

TEST(PipelineModel, what_does_not_fit_together_is_refused_by_name) {
  PipelineModel good{plan::gpipe_order(2, 3)};
  good.times = plan::PipelineTimes::even(good.order, 1, 1, 1);
  EXPECT_EQ(plan::estimate(good).makespan, 12);
  const auto refused = [&](auto&& change, const std::string& says) {
    PipelineModel model = good;
    change(model);
    EXPECT_THAT(complaint_of<OptionError>(model), HasSubstr(says));
  };
  refused([](auto& model) { model.order.tasks[1].pop_back(); },
          "rank 1 of the order: B2 is missing");
  refused([](auto& model) { model.times.forward.pop_back(); }, "1 times of forward for 2 chunks");
  refused([](auto& model) { model.times.weight_backward[1] = -1; },
          "weight_backward of chunk 1 takes -1");
  refused([](auto& model) { model.times.world.links.pop_back(); }, "3 links for 2 ranks");
  refused([](auto& model) { model.times.world.links[2].latency = -1; },
          "the link from rank 1 to rank 0");
  refused(
      [](auto& model) {
        model.forward = {{1, 0, 1}};
      },
      "forward[0] goes from chunk 1 to chunk 0");
  refused(
      [](auto& model) {
        model.backward = {{2, 0, 1}};
      },
      "backward[0] goes from chunk 2 to chunk 0");
}

}  // namespace
}  // namespace reef::test
