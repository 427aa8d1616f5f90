// reef-plan as a user runs it: answers, what is infeasible, and what cannot be read.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/units.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>

#include "support/job.hpp"
#include "support/temporary_folder.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;

class ReefPlan : public testing::Test {
protected:
  /// One element of a file of cases.
  static io::Json case_of(const std::string& file, std::size_t index) {
    return io::read_json(std::string(REEF_TEST_DATA) + "/" + file).at("cases").at(index);
  }

  Ending plan(const std::string& command, const std::string& text, const std::string& more = "") {
    write_file(folder_ / "case.json", text);
    return run_command(std::string(REEF_PLAN) + " " + command + " " +
                       (folder_ / "case.json").string() + " " + more);
  }

  /// The answer, which is one JSON object.
  io::Json answer(const std::string& command, const io::Json& test, const std::string& more = "") {
    const Ending ending = plan(command, test.dump(), more);
    EXPECT_EQ(ending.status, 0) << ending.output;
    return io::parse_json(ending.output, "answer");
  }

  TemporaryFolder folder_;
};

TEST_F(ReefPlan, swap_says_where_to_cut) {
  const io::Json test = case_of("atom_partition.json", 0);
  const io::Json found = answer("swap", test);
  EXPECT_EQ(found.at("feasible"), true);
  EXPECT_EQ(found.at("fits"), false);
  EXPECT_EQ(found.at("segments"), (io::Json{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  EXPECT_EQ(found.at("cut_bytes"), 9);
  EXPECT_EQ(found.at("iter_us"), 360);
  EXPECT_EQ(found.at("C"), 1);
  EXPECT_EQ(found.at("peak_bytes"), 64);
  EXPECT_NEAR(found.at("utilisation").get<double>(), 240.0 / 360, 1e-12);
  EXPECT_EQ(answer("swap", test, "--variant paper").at("cut_bytes"), 3);
}

TEST_F(ReefPlan, swap_finds_the_fewest_micro_batches) {
  io::Json test = case_of("atom_partition.json", 2);
  const io::Json none = answer("swap", test);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("enough would be 3 micro-batches"));
  test["C"] = 0;
  const io::Json found = answer("swap", test);
  EXPECT_EQ(found.at("feasible"), true);
  EXPECT_EQ(found.at("C"), 3);
}

TEST_F(ReefPlan, simulate_takes_virtual_time_and_leaves_a_trace) {
  const io::Json test = case_of("swap_schedule.json", 1);
  const std::string trace = (folder_ / "trace.json").string();
  const io::Json found = answer("simulate", test, "--trace " + trace);
  for (const char* key : {"iter_us", "compute_us", "first_iter_us"}) {
    EXPECT_EQ(found.at(key), test.at(key)) << key;
  }
  const io::Json events = io::read_json(trace).at("traceEvents");
  double computed = 0;
  std::map<std::string, int> count;
  for (const io::Json& event : events) {
    if (event.at("ph") != "X") continue;
    const auto name = event.at("name").get<std::string>();
    const std::string kind = name.substr(0, name.find('('));
    ++count[kind];
    if (kind == "Forward" || kind == "Backward") computed += event.at("dur").get<double>();
  }
  // Two iterations of 12 sub-models, of which the last and the first stay.
  EXPECT_NEAR(computed, 2 * test.at("compute_us").get<double>(), 1e-3);
  EXPECT_EQ(count["Forward"], 24);
  EXPECT_EQ(count["Load"], 44);
  EXPECT_EQ(count["Evict"], 44);
}

TEST_F(ReefPlan, simulate_foresees_a_recipe_on_a_network_and_a_device) {
  io::Json test{{"recipe", "ddp"},
                {"model", {{"shape", "6x4x64"}, {"context", 64}, {"batch", 4}}},
                {"micro_batches", 4},
                {"device", {{"memory_bytes", 0}, {"link_gbps", 1}, {"flops", 1e11}}},
                {"network", {{"ranks", 3}, {"latency_ms", 5}, {"bandwidth_gbps", 1}}}};
  const io::Json ddp = answer("simulate", test);
  EXPECT_EQ(ddp.at("feasible"), true);
  EXPECT_GT(ddp.at("wire_bytes"), 2 * 3 * 2 * 300'000) << "gradients of 0.3 M parameters";
  EXPECT_GT(ddp.at("step_s"), 5e-3);
  EXPECT_LT(ddp.at("utilisation"), 1);
  io::Json shared = test;
  shared["network"]["uplink_gbps"] = 1;
  EXPECT_GT(answer("simulate", shared).at("step_s"), ddp.at("step_s"))
      << "the two links of a rank share its uplink";
  // A device of a quarter of that: too small to stay, not too small to be swapped.
  test["device"]["memory_bytes"] = ddp.at("peak_device_bytes").get<std::uint64_t>() / 4;
  const io::Json none = answer("simulate", test);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("the recipe needs"));
  test["recipe"] = "atom";
  const std::string trace = (folder_ / "trace.json").string();
  const io::Json atom = answer("simulate", test, "--trace " + trace);
  EXPECT_EQ(atom.at("feasible"), true) << atom;
  EXPECT_LE(atom.at("peak_device_bytes"), test["device"]["memory_bytes"]);
  EXPECT_GE(atom.at("step_s"), ddp.at("step_s").get<double>() * 0.99);
  EXPECT_THAT(io::read_json(trace).dump(), HasSubstr("Load(0)"));
  test["device"]["memory_bytes"] = 1000;
  EXPECT_THAT(answer("simulate", test).at("why").get<std::string>(),
              HasSubstr("no way was found to swap"));
  for (const char* recipe : {"zero1", "dpu", "acco-wp", "acco"}) {
    test["recipe"] = recipe;
    test["device"]["memory_bytes"] = 0;
    EXPECT_EQ(answer("simulate", test).at("feasible"), true) << recipe;
  }
  test["recipe"] = "ddp";
  test["device"]["memory_gbps"] = 0.1;
  EXPECT_GT(answer("simulate", test).at("step_s"), ddp.at("step_s").get<double>() + 0.05)
      << "an update of 0.3 M parameters reads and writes more than 5 MB";
  const auto refused = [&](const std::string& text) {
    const Ending ending = plan("simulate", test.dump());
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(text));
  };
  test["recipe"] = "petals";
  refused("the recipe is 'petals'");
  test["recipe"] = "ddp";
  test["device"]["flops"] = 0;
  refused("device.flops is 0");
  test["device"]["flops"] = 1e9;
  test["device"]["memory_gbps"] = -1;
  refused("device.memory_gbps is -1");
  test["device"]["memory_gbps"] = 0;
  test["model"] = "6x4";
  refused("the model is '6x4'");
  test["model"] = "6x4x64";
  test["network"] = {{"latency_ms", {{0, 1}, {1, 0}}}, {"bandwidth_gbps", {{1}}}};
  refused("network.bandwidth_gbps has 1 rows for 2 ranks");
  test["network"] = {{"ranks", 2}, {"uplink_gbps", {1}}};
  refused("uplink_gbps has 1 numbers for 2 devices");
  test["network"] = 5;
  refused("'network' is no object");
  test.erase("network");
  test["micro_batches"] = 100'000'000;
  refused("are too many together");
  test["micro_batches"] = 3;
  test["recipe"] = "acco";
  refused("3 micro-batches over 2 stages");
}

TEST_F(ReefPlan, blocks_answers_what_its_op_asks) {
  const auto test = [](int i) {
    return case_of("petals_block_selection.json", static_cast<std::size_t>(i));
  };
  EXPECT_EQ(answer("blocks", test(0)).at("start"), 3);
  EXPECT_EQ(answer("blocks", test(3)).at("start"), 5);
  const io::Json moved = answer("blocks", test(5));
  EXPECT_EQ(moved.at("move"), true);
  EXPECT_EQ(moved.at("current_throughput"), 10);
  EXPECT_EQ(moved.at("simulated_throughput"), 20);
  EXPECT_EQ(answer("blocks", test(8)).at("throughput"), 1185.5);
  io::Json join = case_of("petals_greedy_join.json", 0);
  join["op"] = "greedy_join";
  const io::Json joined = answer("blocks", join);
  EXPECT_EQ(joined.at("starts"), join.at("expect_starts"));
  EXPECT_EQ(joined.at("t"), join.at("expect_t"));
  EXPECT_EQ(joined.at("throughput"), 85);
  // Without an op: the plan. Of three that are stacked one moves, and one that comes is placed.
  const io::Json swarm{{"L", 6},
                       {"servers",
                        {{{"id", "A"}, {"start", 0}, {"end", 3}, {"thr", 10}},
                         {{"id", "B"}, {"start", 0}, {"end", 3}, {"thr", 10}},
                         {{"id", "C"}, {"start", 0}, {"end", 3}, {"thr", 10}},
                         {{"id", "D"}, {"K", 3}, {"thr", 10}}}}};
  const io::Json plan = answer("blocks", swarm);
  EXPECT_EQ(plan.at("feasible"), true);
  EXPECT_EQ(plan.at("throughput"), 20);
  EXPECT_EQ(plan.at("upper_bound"), 20);
  EXPECT_EQ(plan.at("moves"), (io::Json{{{"id", "A"}, {"start", 3}, {"end", 6}},
                                        {{"id", "D"}, {"start", 3}, {"end", 6}}}));
  io::Json alone = swarm;
  alone["servers"].erase(1);
  alone["L"] = 20;
  const io::Json none = answer("blocks", alone);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("no placement was found"));
}

TEST_F(ReefPlan, route_says_the_way_and_what_is_missing) {
  io::Json test = case_of("petals_routing.json", 0);
  const io::Json found = answer("route", test);
  EXPECT_EQ(found.at("feasible"), true);
  EXPECT_NEAR(found.at("cost").get<double>(), 0.116, 1e-12);
  EXPECT_EQ(found.at("path"), (io::Json{{"B", 0, 4}, {"C", 4, 8}}));
  test["servers"]["C"]["queue"] = 40;
  EXPECT_EQ(answer("route", test).at("path"), (io::Json{{"B", 0, 4}, {"A", 4, 8}}))
      << "40 requests wait at C";
  test["servers"].erase("A");
  test["servers"].erase("C");
  const io::Json none = answer("route", test);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_EQ(none.at("why"), "no server holds block 4");
  io::Json cache = case_of("petals_routing.json", 2);
  cache["end"] = 2;
  EXPECT_EQ(answer("route", cache).at("path"), (io::Json{{"B", 0, 2}}));
  EXPECT_EQ(answer("route", cache, "--used-cache").at("path"), (io::Json{{"A", 0, 2}}));
}

TEST_F(ReefPlan, blocks_and_route_name_the_field_that_cannot_be) {
  const auto refused = [&](const std::string& command, const io::Json& test,
                           const std::string& text) {
    const Ending ending = plan(command, test.dump());
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(text));
  };
  const auto with = [](io::Json test, const std::string& at, const io::Json& value) {
    test[io::Json::json_pointer(at)] = value;
    return test;
  };
  const io::Json start = case_of("petals_block_selection.json", 0);
  refused("blocks", with(start, "/op", "fly"), "'op' is \"fly\"");
  refused("blocks", with(start, "/K", 8), "'K' is 8");
  refused("blocks", with(start, "/t/2", -1), "'t.2' is -1");
  refused("blocks", with(start, "/t", "many"), "'t' must be an array");
  refused("blocks", with(start, "/t", std::vector<int>(1'000'000)), "'t' has 1000000 numbers");
  const io::Json move = case_of("petals_block_selection.json", 5);
  refused("blocks", with(move, "/me", "nobody"), "no server 'nobody'");
  refused("blocks", with(move, "/L", 1'000'000'000), "'L' is 1000000000");
  refused("blocks", with(move, "/servers/1/thr", -3), "servers[1]: 'thr' is -3");
  refused("blocks", with(move, "/servers/1/end", 7), "servers[1]: 'end' is 7");
  refused("blocks", with(move, "/servers/1/state", "ASLEEP"), "servers[1].state is \"ASLEEP\"");
  refused("blocks", with(move, "/servers/1/id", "A"), "servers[1] says again where 'A' is");
  refused("blocks", with(move, "/servers/1/speed", 1), "'servers[1].speed'");
  refused("blocks", with(move, "/balance_quality", "high"), "'balance_quality' must be a number");
  const io::Json join = case_of("petals_greedy_join.json", 0);
  refused("blocks", with(join, "/capacities/3", 21), "'capacities.3' is 21");
  refused("blocks", with(join, "/throughputs", {1}), "'throughputs' 1");
  const io::Json rate = case_of("petals_block_selection.json", 8);
  refused("blocks", with(rate, "/num_blocks", 0), "'num_blocks' is 0");
  refused("blocks", with(rate, "/network_rps", -1), "'network_rps' is -1");
  const io::Json route = case_of("petals_routing.json", 0);
  refused("route", with(route, "/end", 9), "'end' is 9");
  refused("route", with(route, "/start", 8), "'start' is 8");
  refused("route", with(route, "/servers/A/rps", 0), "servers.A: 'rps' is 0");
  refused("route", with(route, "/servers/A/end", 0), "servers.A: 'end' is 0");
  refused("route", with(route, "/servers/B/next/C", -1), "servers.B.next says -1 of \"C\"");
  refused("route", with(route, "/client_rtt/A", "far"), "client_rtt says \"far\" of \"A\"");
  refused("route", with(route, "/cache_tokens_needed", -1), "'cache_tokens_needed' is -1");
  refused("route", with(route, "/servers", 3), "'servers' is no object");
}

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
  EXPECT_EQ(answer("op-fence", test, "--seed 7 --effort 1 --budget 1").at("plan"),
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
  const io::Json file = io::read_json(std::string(REEF_TEST_DATA) + "/adatopk.json");
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
  const io::Json file = io::read_json(std::string(REEF_TEST_DATA) + "/adatopk.json");
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
  const auto refused = [&](const std::string& command, const std::string& text,
                           const std::string& message, const std::string& more = "") {
    const Ending ending = plan(command, text, more);
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(message));
  };
  const auto with = [](io::Json test, const std::string& at, const io::Json& value) {
    test[io::Json::json_pointer(at)] = value;
    return test.dump();
  };
  const io::Json pipeline = case_of("op_fence.json", 0);
  refused("op-fence", "[]", "must be an object");
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
  refused("op-fence", pipeline.dump(), "--effort", "--effort 0");
  io::Json graph = pipeline;
  graph.erase("cut");
  graph["outputs"] = std::vector<int>(6, 1);
  refused("op-fence", with(graph, "/edges", {{3, 1}}), "an edge leads from 3 to 1");
  std::string nan = pipeline.dump();
  nan.replace(nan.find("\"flops\":[") + 9, 1, "NaN,");
  refused("op-fence", nan, "case.json:1:");

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
  refused("adatopk", links.dump(), "needs 'compute_s'", "--target stage");
  refused("adatopk", R"({"alpha": [0, 0], "beta": [1e-9], "bytes": 5, "r": 2})",
          "'beta' has 1 numbers");
  refused("adatopk", R"({"alpha": [0], "beta": [0], "bytes": 5, "r": 2})", "beta[0] is 0");
  refused("estimate", R"({"C": [1, -1], "R_in": [0, 1], "n_b": 2})", "stage 1 computes for -1 s");
  refused("estimate", R"({"C": [1], "R_in": [0], "n_b": 0})", "0 micro-batches");
  const io::Json recipe{{"recipe", "ddp"}, {"model", "2x2x16"}, {"device", {{"flops", 1e9}}}};
  refused("estimate", with(recipe, "/plan", {{0, 0, 3}}), "does not reach the last operator");
  refused("estimate", with(recipe, "/plan", {{0, 0, 2}, {1, 2, 4}}), "plan[1] is no stage");
  refused("estimate", with(recipe, "/device", {{"warm_up", {{1, 0}}}}),
          "run 0 has 1 operations in 0 s");
  refused("simulate", with(recipe, "/plan", 1), "nothing reads the key 'plan'");
}

TEST_F(ReefPlan, what_cannot_be_read_is_one_line_and_status_2) {
  const std::string good = case_of("atom_partition.json", 0).dump();
  const auto refused = [&](const Ending& ending, const std::string& text) {
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(text));
  };
  refused(plan("swap", "{"), "reef-plan: reef::io: ");
  for (const char* command : {"swap", "simulate"}) {
    for (const char* text : {"[]", "5", "null"})
      refused(plan(command, text), std::string("case.json must be an object, it is ") + text);
  }
  refused(plan("swap", "{}"), "'chain' is missing");
  for (const char* text : {"{}", R"({"variant":"atom2","C":1})", R"({"model":"2x2x16"})"})
    refused(plan("simulate", text), "there is neither 'recipe' nor 'chain'");
  refused(run_command(std::string(REEF_PLAN) + " swap /nowhere.json"), "/nowhere.json");
  io::Json broken = io::Json::parse(good);
  broken["chain"]["tf"][2] = 1.5;
  refused(plan("swap", broken.dump()), "'tf' must be an array, each element an integer");
  broken = io::Json::parse(good);
  broken["chain"]["g"].erase(0);
  refused(plan("swap", broken.dump()), "'g' has 7 numbers and 'tf' 8");
  broken = io::Json::parse(good);
  broken["cap"] = -1;
  refused(plan("swap", broken.dump()), "'cap' must be an integer from 0");
  broken = io::Json::parse(good);
  broken["C"] = -2;
  refused(plan("swap", broken.dump()), "'C' is -2");
  broken["C"] = std::int64_t{1} << 62;
  refused(plan("swap", broken.dump()), "sums are exact below 1e18");
  broken.erase("C");
  refused(plan("swap", broken.dump()), "'C' is missing");
  io::Json schedule = case_of("swap_schedule.json", 0);
  schedule["variant"] = "atom9";
  refused(plan("simulate", schedule.dump()), "'variant' is 'atom9'");
  schedule["variant"] = "atom2";
  schedule["opts"] = 3;
  refused(plan("simulate", schedule.dump()), "'opts' is no object");
  schedule.erase("opts");
  schedule["cuts"] = {3, 2};
  refused(plan("simulate", schedule.dump()), "do not cut a chain of 14 operators");
}

TEST_F(ReefPlan, refuses_a_key_that_nothing_reads_and_names_what_may_have_been_meant) {
  const auto refused = [&](const std::string& command, const io::Json& test,
                           const std::string& text) {
    const Ending ending = plan(command, test.dump());
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(text));
  };
  const io::Json recipe{{"recipe", "ddp"},
                        {"model", {{"shape", "2x2x16"}}},
                        {"device", {{"flops", 1e11}}},
                        {"network", {{"ranks", 2}, {"latency_ms", 1}, {"bandwidth_gbps", 1}}}};
  const auto with = [](io::Json test, const std::string& at, const io::Json& value) {
    test[io::Json::json_pointer(at)] = value;
    return test;
  };
  refused("simulate", with(recipe, "/network/bandwith_gbps", 0.01),
          "'network.bandwith_gbps'; did you mean 'network.bandwidth_gbps'?");
  refused("simulate", with(recipe, "/device/memory", 1e9), "did you mean 'device.memory_bytes'?");
  refused("simulate", with(recipe, "/model/layer", 3), "did you mean 'model.layers'?");
  refused("simulate", with(recipe, "/micro_batch", 3), "did you mean 'micro_batches'?");
  refused("simulate", with(recipe, "/wholly_other", 3),
          "'wholly_other'. fix: correct or remove it");
  refused("simulate", {{"recepie", "ddp"}, {"model", "2x2x16"}}, "did you mean 'recipe'?");
  const io::Json schedule = case_of("swap_schedule.json", 0);
  refused("simulate", with(schedule, "/opts", {{"slot", 2}}), "did you mean 'opts.slots'?");
  refused("simulate", with(schedule, "/cap", 5), "nothing reads the key 'cap'");
  const io::Json cut = case_of("atom_partition.json", 0);
  refused("swap", with(cut, "/Cap", 5), "did you mean 'cap'?");
  refused("swap", with(cut, "/chain/workspace", 5), "nothing reads the key 'chain.workspace'");
  // Remarks and what a case expects are no mistakes.
  for (const char* remark :
       {"/note", "/expected_ms", "/best_known", "/old_iter_us", "/network/name"})
    EXPECT_EQ(answer("simulate", with(recipe, remark, "text")).at("feasible"), true) << remark;
}

TEST_F(ReefPlan, null_is_refused_by_name_wherever_a_case_holds_it) {
  const io::Json recipe{
      {"recipe", "ddp"},
      {"model", {{"layers", 2}, {"heads", 2}, {"channels", 16}, {"context", 8}}},
      {"micro_batches", 1},
      {"device", {{"flops", 1e11}, {"memory_bytes", 0}, {"link_gbps", 1}, {"memory_gbps", 0}}},
      {"network", {{"ranks", 2}, {"latency_ms", 1}, {"bandwidth_gbps", 1}, {"uplink_gbps", 1}}}};
  io::Json schedule = case_of("swap_schedule.json", 1);
  schedule["opts"] = {{"slots", 0}, {"turn", false}};
  io::Json named = schedule;
  named["chain"]["name"] = std::vector<std::string>(schedule["chain"]["tf"].size());
  for (const io::Json& test : {recipe, schedule, named}) {
    answer("simulate", test);
    // Each value, and all that holds it.
    std::set<io::Json::json_pointer> places;
    const io::Json leaves = test.flatten();
    for (const auto& [path, value] : leaves.items()) {
      for (io::Json::json_pointer at(path); !at.empty(); at.pop_back()) places.insert(at);
    }
    for (const io::Json::json_pointer& at : places) {
      const std::string& key = at.back();
      const bool is_index = key.find_first_not_of("0123456789") == std::string::npos;
      if (is_index || (at.parent_pointer().empty() && io::is_remark_of_case(key))) continue;
      io::Json broken = test;
      broken[at] = nullptr;
      const Ending ending = plan("simulate", broken.dump());
      EXPECT_EQ(ending.status, 2) << at << ": " << ending.output;
      EXPECT_THAT(ending.output, HasSubstr(key)) << at;
    }
  }
}

TEST_F(ReefPlan, a_model_says_all_of_its_size_once) {
  io::Json test{{"recipe", "ddp"}, {"device", {{"flops", 1e11}}}};
  const auto refused = [&](const io::Json& model, const std::string& text) {
    test["model"] = model;
    const Ending ending = plan("simulate", test.dump());
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(text));
  };
  refused(io::Json::object(), "'model.layers' is missing");
  refused({{"layers", 2}, {"channels", 16}}, "'model.heads' is missing");
  refused({{"shape", "2x2x16"}, {"layers", 3}}, "'model.layers' is given, and 'model.shape' too");
  refused({{"shape", ""}}, "'model.shape' is ''");
  test["model"] = {{"layers", 2}, {"heads", 2}, {"channels", 16}};
  const io::Json one = answer("simulate", test);
  test["model"] = "2x2x16";
  EXPECT_EQ(answer("simulate", test), one);
}

TEST_F(ReefPlan, an_option_that_a_variant_does_not_heed_is_refused) {
  const auto ends = [&](const char* variant, const io::Json& options) {
    io::Json test = case_of("swap_schedule.json", 0);
    test["variant"] = variant;
    test["opts"] = options;
    return plan("simulate", test.dump());
  };
  for (const char* variant : {"atom2", "zero", "zero_sync"}) {
    const Ending slots = ends(variant, {{"slots", 2}});
    EXPECT_EQ(slots.status, 2) << variant;
    EXPECT_THAT(slots.output, HasSubstr("'slots' is 2")) << variant;
    EXPECT_EQ(ends(variant, {{"slots", 0}, {"turn", false}}).status, 0) << variant;
  }
  for (const char* variant : {"zero", "zero_sync"}) {
    const Ending turn = ends(variant, {{"turn", true}});
    EXPECT_EQ(turn.status, 2) << variant;
    EXPECT_THAT(turn.output, HasSubstr("'turn'")) << variant;
  }
  EXPECT_EQ(ends("atom3", {{"slots", 2}, {"turn", true}}).status, 0);
  EXPECT_EQ(ends("atom2", {{"turn", true}}).status, 0);
}

TEST_F(ReefPlan, a_trace_takes_no_foreign_files_place_and_an_earlier_one_goes_aside) {
  const std::string trace = (folder_ / "trace.json").string();
  const auto text_of = [](const std::string& file) { return io::read_file(file, 1_MiB); };
  const io::Json recipe{{"recipe", "ddp"}, {"model", "2x2x16"}, {"device", {{"flops", 1e11}}}};
  for (const io::Json& test : {case_of("swap_schedule.json", 1), recipe}) {
    std::filesystem::remove(trace + ".1");
    write_file(trace, "my notes");
    const Ending foreign = plan("simulate", test.dump(), "--trace " + trace);
    EXPECT_EQ(foreign.status, 2) << foreign.output;
    EXPECT_THAT(foreign.output, HasSubstr("--trace: '" + trace + "' holds something else"));
    EXPECT_EQ(text_of(trace), "my notes");
    write_file(trace, "");
    answer("simulate", test, "--trace " + trace);
    const std::string first = text_of(trace);
    const Ending again = plan("simulate", test.dump(), "--trace " + trace);
    EXPECT_EQ(again.status, 0) << again.output;
    EXPECT_THAT(again.output,
                HasSubstr("reef-plan: wrote " + trace +
                          " (what an earlier run left there is now in " + trace + ".1)"));
    EXPECT_EQ(text_of(trace + ".1"), first);
    EXPECT_EQ(text_of(trace), first);
  }
  const Ending link =
      plan("simulate", recipe.dump(), "--trace " + (folder_ / "case.json").string());
  EXPECT_EQ(link.status, 2);
  const Ending none = plan("simulate", recipe.dump(), "--trace ''");
  EXPECT_EQ(none.status, 2) << none.output;
  EXPECT_THAT(none.output, HasSubstr("'' is no path"));
}

TEST_F(ReefPlan, an_answer_that_cannot_be_written_is_an_error) {
  const std::string test = (folder_ / "case.json").string();
  write_file(test, case_of("swap_schedule.json", 1).dump());
  for (const std::string& words :
       {"simulate " + test, std::string("--version"), std::string("--help"),
        std::string("swap --help"), std::string()}) {
    const Ending ending =
        run_command("sh -c '" + std::string(REEF_PLAN) + " " + words + " >/dev/full'");
    EXPECT_EQ(ending.status, 1) << words;
    EXPECT_THAT(ending.output, testing::StartsWith("reef-plan: cannot write ")) << words;
    EXPECT_THAT(ending.output, HasSubstr("No space left on device")) << words;
    EXPECT_EQ(run_command("sh -c '" + std::string(REEF_PLAN) + " " + words + " >&-'").status, 1)
        << words;
  }
}

TEST_F(ReefPlan, reads_every_case_there_is) {
  for (const auto& [command, file] :
       {std::pair{"swap", "atom_partition.json"}, std::pair{"simulate", "swap_schedule.json"},
        std::pair{"blocks", "petals_block_selection.json"},
        std::pair{"blocks", "petals_greedy_join.json"}, std::pair{"route", "petals_routing.json"},
        std::pair{"cluster", "louvain.json"}, std::pair{"op-fence", "op_fence.json"}}) {
    const io::Json cases = io::read_json(std::string(REEF_TEST_DATA) + "/" + file).at("cases");
    for (const io::Json& test : cases) answer(command, test);
  }
}

TEST_F(ReefPlan, refuses_a_rate_of_nothing_and_says_of_which_link) {
  io::Json test{{"recipe", "ddp"},
                {"model", "2x2x16"},
                {"device", {{"flops", 1e11}}},
                {"network", {{"ranks", 2}, {"latency_ms", 1}, {"bandwidth_gbps", 1}}}};
  const auto refused = [&](const std::string& text) {
    const Ending ending = plan("simulate", test.dump());
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr(text));
  };
  test["network"]["bandwidth_gbps"] = 0;
  refused("network.bandwidth_gbps is 0. fix: a link that can be");
  test["network"]["bandwidth_gbps"] = {{0, 1}, {0, 0}};
  refused("network.bandwidth_gbps[1][0] is 0");
  test["network"]["bandwidth_gbps"] = {{0, 1}, {1, 0}};
  EXPECT_EQ(answer("simulate", test).at("feasible"), true) << "diagonals are never read";
  test["network"]["bandwidth_gbps"] = "1";
  refused("'network.bandwidth_gbps' must be a number, or an array, each element an array");
  test["network"].erase("bandwidth_gbps");
  refused("'network.bandwidth_gbps' is missing");
  test["network"] = {{"latency_ms", 1}, {"bandwidth_gbps", 1}};
  refused("'network.ranks' is missing");
  for (const io::Json& network : {io::Json::object(), io::Json{{"uplink_gbps", 1}}}) {
    test["network"] = network;
    refused("'network.ranks' is missing");
  }
  test["network"] = {{"ranks", 2}, {"latency_ms", -1}, {"bandwidth_gbps", 1}};
  refused("network.latency_ms is -1");
  test.erase("network");
  test["device"]["link_gbps"] = 0;
  refused("device.link_gbps is 0");
  test["device"] = io::Json::object();
  refused("'device.flops' is missing");
  test["device"] = {{"flops", "fast"}};
  refused("'device.flops' must be a number");
}

TEST_F(ReefPlan, without_a_command_it_says_what_there_is) {
  const Ending list = run_command(std::string(REEF_PLAN));
  EXPECT_EQ(list.status, 0);
  for (const char* command :
       {"swap", "simulate", "blocks", "route", "cluster", "op-fence", "adatopk", "estimate"})
    EXPECT_THAT(list.output, HasSubstr(std::string("reef-plan ") + command + " case.json"));
  EXPECT_THAT(list.output, HasSubstr("    reef-plan measure\n"));
}

TEST_F(ReefPlan, measure_says_in_one_line_how_a_network_is_measured) {
  const Ending ending = run_command(std::string(REEF_PLAN) + " measure");
  EXPECT_EQ(ending.status, 0);
  EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending.output;
  EXPECT_THAT(ending.output, testing::ContainsRegex("^mpiexec -n P .*reef-measure --output "));
}

TEST_F(ReefPlan, answers_the_cases_of_the_readme_as_they_stand_there) {
  std::ifstream file(REEF_README);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  int cases = 0;
  constexpr std::string_view shown = "\n$ cat ";
  for (std::size_t at = text.find(shown); at != std::string::npos; at = text.find(shown, at + 1)) {
    // $ cat NAME, the case, $ reef-plan COMMAND NAME, the answer.
    const std::size_t begin = text.find('\n', at + 1) + 1;
    const std::size_t end = text.find("\n$ reef-plan ", begin);
    ASSERT_NE(end, std::string::npos);
    const std::size_t name = end + std::string_view("\n$ reef-plan ").size();
    const std::size_t line = text.find('\n', name);
    const std::string command = text.substr(name, text.find(' ', name) - name);
    const io::Json said = io::parse_json(
        text.substr(line + 1, text.find('\n', line + 1) - line - 1), "the README's answer");
    const io::Json found = answer(command, io::parse_json(text.substr(begin, end - begin), "case"));
    ASSERT_EQ(found.size(), said.size());
    for (const auto& [key, value] : said.items()) {
      if (key == "peak_device_bytes") {  // with the workspace of whatever BLAS is here
        EXPECT_NEAR(found.at(key).get<double>(), value.get<double>(), 0.1 * value.get<double>());
      } else if (value.is_number_float()) {
        EXPECT_NEAR(found.at(key).get<double>(), value.get<double>(), 1e-9) << key;
      } else {
        EXPECT_EQ(found.at(key), value) << key;
      }
    }
    ++cases;
  }
  EXPECT_GE(cases, 2);
}

TEST_F(ReefPlan, needs_no_mpi_and_no_cuda_to_run) {
  const Ending libraries = run_command(std::string("ldd ") + REEF_PLAN);
  ASSERT_EQ(libraries.status, 0) << libraries.output;
  EXPECT_THAT(libraries.output, HasSubstr("libstdc++"));
  for (const char* library : {"libmpi", "libopen-pal", "libcuda", "libcublas"})
    EXPECT_THAT(libraries.output, testing::Not(HasSubstr(library)));
}

TEST_F(ReefPlan, options_that_are_none_end_with_status_2) {
  const auto refused = [](const Ending& ending) {
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending.output;
    EXPECT_THAT(ending.output, testing::StartsWith("reef-plan: "));
  };
  refused(plan("swap", "{}", "--variant fastest"));
  refused(plan("fly", "{}"));
  EXPECT_EQ(answer("swap", case_of("atom_partition.json", 0), "--seed 3 --budget 10").at("C"), 1);
  const std::string good = case_of("atom_partition.json", 0).dump();
  for (const char* number : {"-1", "0x10", "1e3", "1_000", "+1", "99999999999999999999", "''"})
    refused(plan("swap", good, std::string("--seed ") + number));
  for (const char* number : {"nan", "inf", "0x1p3", "1,5", "-1", "3s"})
    refused(plan("swap", good, std::string("--budget ") + number));
  const Ending help = run_command(std::string(REEF_PLAN) + " swap --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--variant"));
}

}  // namespace
}  // namespace reef::test
