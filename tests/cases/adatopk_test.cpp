// Ratios by link and times of pipelines against known answers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/adatopk_json.hpp>
#include <reef/plan/pipeline_time.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

using Numbers = std::vector<double>;

void expect_near(const Numbers& found, const Numbers& known) {
  ASSERT_EQ(found.size(), known.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], known[i], 1e-9 * std::max(1.0, known[i])) << i;
}

TEST(AdaTopKCases, ratios_by_link_times_are_the_known_ones) {
  const io::Json file = read_case_file("adatopk.json");
  int cases = 0;
  for (const io::Json& test : file.at("ratio_cases")) {
    SCOPED_TRACE(test.value("name", ""));
    for (const int index_bytes : {8, 4}) {
      const char* const key = index_bytes == 8 ? "i64" : "i32";
      if (!test.contains(key)) continue;
      ++cases;
      plan::AdaTopKCase read = plan::adatopk_from_json(test, "case");
      read.options.index_bytes = index_bytes;
      const plan::AdaTopKRatios found = plan::adatopk(read.links, read.options);
      const io::Json& known = test.at(key);
      expect_near(found.ratios, known.at("ratios").get<Numbers>());
      expect_near(found.times, known.at("link_times_after").get<Numbers>());
      EXPECT_NEAR(found.bottleneck, known.at("bottleneck").get<double>(), 1e-9);
    }
  }
  EXPECT_GT(cases, 0);
  const io::Json& latency = file.at("alpha_beta_case");
  const plan::AdaTopKCase read = plan::adatopk_from_json(latency, "case");
  const plan::AdaTopKRatios found = plan::adatopk(read.links, read.options);
  expect_near(found.ratios, latency.at("ratios").get<Numbers>());
  EXPECT_NEAR(found.target, latency.at("T_star").get<double>(), 1e-12);
}

TEST(AdaTopKCases, pipelines_take_the_known_times_with_dense_and_compressed_links) {
  const io::Json file = read_case_file("adatopk.json");
  int cases = 0;
  for (const io::Json& test : file.at("pipeline_examples")) {
    SCOPED_TRACE(test.value("name", ""));
    ++cases;
    const auto compute = test.at("C").get<Numbers>();
    const auto receive = test.at("R_in").get<Numbers>();
    const auto micro_batches = test.at("n_b").get<std::int64_t>();
    const plan::PipelineTime time =
        plan::pipeline_time(compute, receive, micro_batches, test.at("B").get<double>());
    EXPECT_NEAR(time.latency, test.at("T_FP").get<double>(), 1e-9);
    EXPECT_NEAR(time.pipelined, test.at("T_pipe").get<double>(), 1e-9);
    EXPECT_NEAR(time.pipelined, test.at("flowshop_exact").get<double>(), 1e-9);
    EXPECT_NEAR(time.rate, test.at("throughput").get<double>(), 1e-9);
    for (const auto& [ratio, known] : test.at("adaptive").items()) {
      std::vector<plan::AdaTopKLink> links;
      for (const double transfer : receive) links.push_back({0, transfer});
      const plan::AdaTopKRatios found = plan::adatopk(links, {std::stod(ratio), 8, 0});
      expect_near(found.ratios, known.at("ratios").get<Numbers>());
      expect_near(found.times, known.at("link_times").get<Numbers>());
      EXPECT_NEAR(plan::pipeline_time(compute, found.times, micro_batches).pipelined,
                  known.at("T_pipe_adaptive").get<double>(), 1e-9);
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
