// reef-plan cluster, op-fence, adatopk and estimate as a user runs them.

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

TEST_F(ReefPlan, cluster_says_which_devices_belong_together) {
  const io::Json test = case_of("louvain.json", 2);
  const io::Json by_log = answer("cluster", test);
  EXPECT_EQ(by_log.at("labels"), test.at("log").at("expected"));
  EXPECT_NEAR(by_log.at("modularity").get<double>(), test.at("log").at("q_expected").get<double>(),
              1e-8);
  EXPECT_EQ(by_log.at("clusters"), 3);
  const io::Json raw = answer("cluster", test, "--weights raw");
  EXPECT_EQ(raw.at("labels"), test.at("raw").at("expected"));
  EXPECT_EQ(answer("cluster", test, "--weights raw --resolution 2").at("clusters"), 5);
}

TEST_F(ReefPlan, op_fence_says_which_device_runs_what) {
  io::Json test = case_of("op_fence.json", 1);
  const io::Json found = answer("op-fence", test);
  EXPECT_EQ(found.at("feasible"), true);
  EXPECT_EQ(found.at("optimal"), true);
  EXPECT_EQ(found.at("plan"), test.at("exact_plan"));
  const double least = test.at("exact_T").get<double>();
  EXPECT_NEAR(found.at("T").get<double>(), least, 1e-9);
  EXPECT_NEAR(found.at("lower_bound_s").get<double>(), least, 1e-9);
  EXPECT_EQ(answer("op-fence", test, "--seed 7 --effort 1 --budget 60").at("plan"),
            found.at("plan"));
  EXPECT_NEAR(answer("op-fence", test, "--method given").at("T").get<double>(),
              test.at("identity_order_T_skips").get<double>(), 1e-9);
  for (const char* method : {"clusters", "equal-operators", "equal-compute"}) {
    const io::Json other = answer("op-fence", test, std::string("--method ") + method);
    if (other.at("feasible") == false) continue;
    EXPECT_GE(other.at("T").get<double>(), least * (1 - 1e-9)) << method;
  }
  // A graph: each operator read by the next, and the first one by the last, too.
  io::Json graph = test;
  graph.erase("cut");
  graph["outputs"] = io::Json::array();
  graph["edges"] = {{0, 7}};
  for (int o = 0; o < 8; ++o) {
    graph["outputs"].push_back(test.at("cut")[static_cast<std::size_t>(o) + 1]);
    if (o < 7) graph["edges"].push_back({o, o + 1});
  }
  EXPECT_GT(answer("op-fence", graph).at("T").get<double>(), least);
  graph["edges"].erase(0);
  EXPECT_NEAR(answer("op-fence", graph).at("T").get<double>(), least, 1e-9);
  test["cap"] = {1, 2, 3, 4};
  const io::Json none = answer("op-fence", test);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("operator 0 needs 858032188 bytes"));
}

TEST_F(ReefPlan, adatopk_says_how_much_each_link_is_compressed) {
  const io::Json file = ReefPlan::file("adatopk.json");
  io::Json test = file.at("ratio_cases").at(0);
  test["index_bytes"] = 8;
  const io::Json found = answer("adatopk", test);
  EXPECT_EQ(found.at("ratios"), (io::Json{1, 300, 1}));
  EXPECT_NEAR(found.at("bottleneck").get<double>(), 0.2, 1e-12);
  EXPECT_NEAR(found.at("link_times")[1].get<double>(), 0.2, 1e-12);
  test["index_bytes"] = 4;
  EXPECT_EQ(answer("adatopk", test).at("ratios"), (io::Json{1, 200, 1}));
  test["compute_s"] = {0.5, 1, 0.4};
  EXPECT_EQ(answer("adatopk", test).at("ratios"), (io::Json{1, 200, 1}));
  EXPECT_EQ(answer("adatopk", test, "--target stage").at("ratios"), (io::Json{1, 40, 1}));
  const io::Json latency = answer("adatopk", file.at("alpha_beta_case"));
  EXPECT_NEAR(latency.at("ratios")[2].get<double>(), 6 / 0.23, 1e-9);
}

TEST_F(ReefPlan, estimate_counts_a_model_and_times_a_pipeline) {
  const io::Json file = ReefPlan::file("adatopk.json");
  for (const io::Json& test : file.at("pipeline_examples")) {
    const io::Json found = answer("estimate", test);
    for (const char* key : {"T_FP", "T_pipe", "throughput"})
      EXPECT_NEAR(found.at(key).get<double>(), test.at(key).get<double>(), 1e-9) << key;
  }
  io::Json test{{"recipe", "ddp"},
                {"model", {{"shape", "2x2x32"}, {"context", 32}, {"batch", 4}}},
                {"micro_batches", 6},
                {"device", {{"flops", 1e9}}},
                {"network", {{"ranks", 3}, {"latency_ms", 1}, {"bandwidth_gbps", 1}}}};
  const io::Json found = answer("estimate", test);
  double flops = 0;
  for (const io::Json& entry : found.at("operators"))
    flops += entry.at("forward_flops").get<double>();
  EXPECT_NEAR(found.at("forward_flops").get<double>(), flops, 1e-6 * flops);
  EXPECT_NEAR(found.at("step_flops").get<double>(),
              6 * (flops + found.at("backward_flops").get<double>()), 1e-6 * flops);
  EXPECT_GT(found.at("bytes").at("weights"), 4 * 2 * 12 * 32 * 32);
  EXPECT_GT(found.at("bytes").at("sent"), 0);
  const io::Json& pipeline = found.at("pipeline");
  EXPECT_NEAR(pipeline.at("compute_s").get<double>(), flops / 1e9, 1e-9);
  EXPECT_GT(pipeline.at("plan").size(), 1U) << "three devices compute at once";
  EXPECT_NEAR(pipeline.at("throughput").get<double>() * pipeline.at("T_pipe").get<double>(), 6 * 4,
              1e-9);
  // A plan of one's own, on one device, and the speed out of a warm-up.
  const std::size_t operators = found.at("operators").size();
  test["plan"] = {{1, 0, operators}};
  test["device"] = {{"warm_up", {{1e6, 0.5}, {1e6, 1e-3}, {2e6, 2e-3}, {4e6, 4e-3}}}};
  const io::Json alone = answer("estimate", test);
  EXPECT_NEAR(alone.at("speed_flops").get<double>(), 1e9, 1);
  EXPECT_NEAR(alone.at("pipeline").at("T_pipe").get<double>(), 6 * flops / 1e9, 1e-6);
  EXPECT_GT(alone.at("pipeline").at("T_pipe"), pipeline.at("T_pipe"));
}

TEST_F(ReefPlan, pipelines_and_clusters_that_cannot_be_are_one_line_that_names_the_figure) {
  const io::Json pipeline = case_of("op_fence.json", 0);
  expect_refusal(plan("op-fence", "[]"), "must be an object");
  refused("op-fence", with(pipeline, "/speed", std::vector<int>(1'000'000, 1)),
          "'speed' has 1000000 numbers");
  refused("op-fence", with(pipeline, "/speed/1", -1), "speed[1] is -1");
  refused("op-fence", with(pipeline, "/beta/0/1", 0), "beta[0][1] is 0");
  refused("op-fence", with(pipeline, "/beta/0/1", nullptr), "'beta' must be");
  refused("op-fence", with(pipeline, "/alpha/1", {0, 1}), "alpha[1] has 2 numbers");
  refused("op-fence", with(pipeline, "/cap", {1}), "'cap' has 1 entries for 3 devices");
  refused("op-fence", with(pipeline, "/mem/0", "much"), "'mem' must be");
  refused("op-fence", with(pipeline, "/n_b", 0), "'n_b' is 0");
  refused("op-fence", with(pipeline, "/edges", {{0, 1}}), "'edges' beside 'cut'");
  refused("op-fence", with(pipeline, "/speeds", 1), "did you mean 'speed'?");
  refused("op-fence", pipeline, "--effort", "--effort -1");
  io::Json graph = pipeline;
  graph.erase("cut");
  graph["outputs"] = std::vector<int>(6, 1);
  refused("op-fence", with(graph, "/edges", {{3, 1}}), "an edge leads from 3 to 1");
  std::string nan = pipeline.dump();
  nan.replace(nan.find("\"flops\":[") + 9, 1, "NaN,");
  expect_refusal(plan("op-fence", nan), "case.json:1:");

  const io::Json network = case_of("louvain.json", 0);
  refused("cluster", with(network, "/bandwidth/0/1", 0), "bandwidth[0][1] is 0");
  refused("cluster", with(network, "/bandwidth/2/1", -5), "bandwidth[2][1] is -5");
  refused("cluster", with(network, "/bandwidth/2", {1, 2}), "bandwidth[2] has 2 numbers");
  refused("cluster", with(network, "/n", 1'000'000), "'n' is 1000000 and 'bandwidth' has 8 rows");

  const io::Json links{{"link_times", {1, 2}}, {"user_ratio", 5}};
  refused("adatopk", with(links, "/link_times/1", -2), "link_times[1] is -2");
  refused("adatopk", with(links, "/user_ratio", 0.5), "user_ratio is 0.5");
  refused("adatopk", with(links, "/index_bytes", -1), "index_bytes is -1");
  refused("adatopk", with(links, "/r", 5), "'r' beside 'link_times'");
  refused("adatopk", links, "needs 'compute_s'", "--target stage");
  refused("adatopk", with(links, "/compute_s", io::Json::array()), "'compute_s' has 0 numbers",
          "--target stage");
  refused("adatopk", with(links, "/compute_s", {1}), "'compute_s' has 1 numbers for 2 links");
  expect_refusal(plan("adatopk", R"({"alpha": [0, 0], "beta": [1e-9], "bytes": 5, "r": 2})"),
                 "'beta' has 1 numbers");
  expect_refusal(plan("adatopk", R"({"alpha": [0], "beta": [0], "bytes": 5, "r": 2})"),
                 "beta[0] is 0");
  expect_refusal(plan("estimate", R"({"C": [1, -1], "R_in": [0, 1], "n_b": 2})"),
                 "stage 1 computes for -1 s");
  expect_refusal(plan("estimate", R"({"C": [1], "R_in": [0], "n_b": 0})"), "0 micro-batches");
  const io::Json recipe{{"recipe", "ddp"}, {"model", "2x2x16"}, {"device", {{"flops", 1e9}}}};
  refused("estimate", with(recipe, "/plan", {{0, 0, 3}}), "does not reach the last operator");
  refused("estimate", with(recipe, "/plan", {{0, 0, 2}, {1, 2, 4}}), "plan[1] is no stage");
  refused("estimate", with(recipe, "/device", {{"warm_up", {{1, 0}}}}),
          "run 0 has 1 operations in 0 s");
  refused("simulate", with(recipe, "/plan", 1), "nothing reads the key 'plan'");
}

}  // namespace
}  // namespace reef::test
