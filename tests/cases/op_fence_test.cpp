// Pipelines over uneven devices against known answers: the least T of all orders, of the order of the case with
// and without devices that are left out, and the least bottleneck of that order.

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/pipeline_problem_json.hpp>
#include <reef/plan/split_in_order.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

TEST(OpFenceCases, take_the_known_least_time_or_are_infeasible) {
  const io::Json file = read_case_file("op_fence.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE("case " + std::to_string(cases++));
    plan::PipelineProblem problem = plan::pipeline_problem_from_json(test, "case");
    std::vector<int> order(problem.speed.size());
    std::iota(order.begin(), order.end(), 0);
    const auto expect = [&](const char* key, const plan::PipelinePlan& found, double time) {
      if (!test.contains(key)) return;
      const io::Json& known = test.at(key);
      EXPECT_EQ(found.feasible, !known.is_null()) << key << ": " << found.why;
      if (!found.feasible || known.is_null()) return;
      EXPECT_NEAR(time, known.get<double>(), 1e-9 * time) << key;
    };
    const plan::PipelinePlan best = plan::op_fence(problem);
    expect("exact_T", best, best.time.pipelined);
    EXPECT_TRUE(best.optimal);
    if (best.feasible) {
      EXPECT_TRUE(problem.fits(best.stages));
      EXPECT_EQ(problem.time(best.stages).pipelined, best.time.pipelined);
    }
    const plan::PipelinePlan skips = plan::split_in_order(problem, order);
    expect("identity_order_T_skips", skips, skips.time.pipelined);
    const plan::PipelinePlan all = plan::split_in_order(problem, order, false);
    expect("identity_order_T_all", all, all.time.pipelined);
    problem.micro_batches = 1'000'000'000;  // nothing but the bottleneck counts
    const plan::PipelinePlan fast = plan::split_in_order(problem, order);
    expect("identity_order_min_bottleneck", fast, fast.time.bottleneck);
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
