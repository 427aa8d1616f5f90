// Orders that are searched, against the best that are known.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/pipeline_case_json.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_search.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

/// As a text in the format of orders.
std::string text_of_orders(const io::Json& orders) {
  std::string text;
  for (const io::Json& order : orders) {
    for (const io::Json& task : order) text += task.get<std::string>() + " ";
    text += "\n";
  }
  return text;
}

TEST(PipelineSearch, is_as_good_as_the_best_known) {
  const io::Json file = read_case_file("pipeline_search.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const plan::PipelineCase asked = plan::pipeline_case_from_json(test, "case");
    const plan::PipelineModel empty = asked.model({asked.micro_batches, asked.rank_of_chunk(), {}});
    const plan::PipelineOrderProblem problem{
        asked.micro_batches, asked.rank_of_chunk(), asked.times, empty.forward,
        empty.backward,      asked.max_activations, asked.splits};
    const plan::PipelineSearch found = plan::search_pipeline_order(problem);
    ASSERT_TRUE(found.feasible);
    EXPECT_NO_THROW(found.order.validate());
    const plan::PipelineEstimate estimate = plan::estimate(asked.model(found.order));
    EXPECT_EQ(estimate.makespan, found.makespan);
    for (std::size_t r = 0; r < asked.max_activations.size(); ++r) {
      EXPECT_LE(estimate.peak_activations[r], asked.max_activations[r]);
    }
    for (const auto& tasks : found.order.tasks) {
      for (const auto& task : tasks) {
        EXPECT_TRUE(asked.splits || task.kind == plan::PipelineTaskKind::forward ||
                    task.kind == plan::PipelineTaskKind::backward);
      }
    }

    const io::Json& expected = test.at("expected");
    double fixed = found.fixed_makespan;
    for (const auto& [name, takes] : expected.at("fixed_us").items()) {
      fixed = std::min(fixed, takes.get<double>());
    }
    EXPECT_EQ(fixed, found.fixed_makespan) << "no schedule that fits is better";
    EXPECT_LE(found.makespan, found.fixed_makespan);
    EXPECT_LE(found.lower_bound, found.makespan);
    EXPECT_GE(found.lower_bound, expected.at("lower_bound_us").get<double>());
    const bool is_proven = expected.contains("optimum_us");
    const double best = expected.at(is_proven ? "optimum_us" : "best_known_us").get<double>();
    EXPECT_LE(plan::pipeline_lower_bound(problem), best);
    if (is_proven) {
      EXPECT_EQ(found.makespan, best);
      EXPECT_TRUE(found.optimal);
    } else {
      EXPECT_LE(found.makespan, best * 1.01);
    }

    // The order that is known takes what it is said to take.
    const plan::PipelineOrder known =
        plan::parse_pipeline_order(text_of_orders(expected.at("order_of_best")));
    EXPECT_EQ(plan::estimate(asked.model(known)).makespan, best);
    ++cases;
  }
  EXPECT_GE(cases, 5);
}

}  // namespace
}  // namespace reef::test
