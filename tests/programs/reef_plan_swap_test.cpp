// reef-plan swap and simulate as a user runs them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/units.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

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
  EXPECT_THAT(io::read_json(trace).dump(), HasSubstr("Load("));  // the first segments may stay
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
  const auto refused = [&](const std::string& text) { this->refused("simulate", test, text); };
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
  refused("3 micro-batches over 2 phases");
}

TEST_F(ReefPlan, what_cannot_be_read_is_one_line_and_status_2) {
  const std::string good = case_of("atom_partition.json", 0).dump();
  expect_refusal(plan("swap", "{"), "reef-plan: reef::io: ");
  for (const char* command : {"swap", "simulate"}) {
    for (const char* text : {"[]", "5", "null"})
      expect_refusal(plan(command, text),
                     std::string("case.json must be an object, it is ") + text);
  }
  expect_refusal(plan("swap", "{}"), "'chain' is missing");
  for (const char* text : {"{}", R"({"variant":"atom2","C":1})", R"({"model":"2x2x16"})"})
    expect_refusal(plan("simulate", text), "there is neither 'recipe' nor 'chain'");
  expect_refusal(run_command(std::string(REEF_PLAN) + " swap /nowhere.json"), "/nowhere.json");
  io::Json broken = io::Json::parse(good);
  broken["chain"]["tf"][2] = 1.5;
  refused("swap", broken, "'tf' must be an array, each element an integer");
  broken = io::Json::parse(good);
  broken["chain"]["g"].erase(0);
  refused("swap", broken, "'g' has 7 numbers and 'tf' 8");
  broken = io::Json::parse(good);
  broken["cap"] = -1;
  refused("swap", broken, "'cap' must be an integer from 0");
  broken = io::Json::parse(good);
  broken["C"] = -2;
  refused("swap", broken, "'C' is -2");
  broken["C"] = std::int64_t{1} << 62;
  refused("swap", broken, "sums are exact below 1e18");
  broken.erase("C");
  refused("swap", broken, "'C' is missing");
  io::Json schedule = case_of("swap_schedule.json", 0);
  schedule["variant"] = "atom9";
  refused("simulate", schedule, "'variant' is 'atom9'");
  schedule["variant"] = "atom2";
  schedule["opts"] = 3;
  refused("simulate", schedule, "'opts' is no object");
  schedule.erase("opts");
  schedule["cuts"] = {3, 2};
  refused("simulate", schedule, "do not cut a chain of 14 operators");
}

TEST_F(ReefPlan, refuses_a_key_that_nothing_reads_and_names_what_may_have_been_meant) {
  const io::Json recipe{{"recipe", "ddp"},
                        {"model", {{"shape", "2x2x16"}}},
                        {"device", {{"flops", 1e11}}},
                        {"network", {{"ranks", 2}, {"latency_ms", 1}, {"bandwidth_gbps", 1}}}};
  refused("simulate", with(recipe, "/network/bandwith_gbps", 0.01),
          "'network.bandwith_gbps'; did you mean 'network.bandwidth_gbps'?");
  refused("simulate", with(recipe, "/device/memory", 1e9), "did you mean 'device.memory_bytes'?");
  refused("simulate", with(recipe, "/model/layer", 3), "did you mean 'model.layers'?");
  refused("simulate", with(recipe, "/micro_batch", 3), "did you mean 'micro_batches'?");
  refused("simulate", with(recipe, "/wholly_other", 3),
          "'wholly_other'. fix: correct or remove it");
  refused("simulate", io::Json{{"recepie", "ddp"}, {"model", "2x2x16"}}, "did you mean 'recipe'?");
  const io::Json schedule = case_of("swap_schedule.json", 0);
  refused("simulate", with(schedule, "/opts", {{"slot", 2}}), "did you mean 'opts.slots'?");
  refused("simulate", with(schedule, "/cap", 5), "nothing reads the key 'cap'");
  for (const char* key : {"ratios", "recompute", "reciprocal_gbps"})
    refused("simulate", with(recipe, std::string("/") + key, 1), std::string("nothing reads the key '") + key);
  const io::Json cut = case_of("atom_partition.json", 0);
  refused("swap", with(cut, "/Cap", 5), "did you mean 'cap'?");
  refused("swap", with(cut, "/chain/workspace", 5), "nothing reads the key 'chain.workspace'");
  // Remarks and what a case expects are no mistakes.
  for (const char* remark :
       {"/note", "/expected_ms", "/best_known", "/old_iter_us", "/network/name"})
    EXPECT_EQ(answer("simulate", with(recipe, remark, "text")).at("feasible"), true) << remark;
}

TEST_F(ReefPlan, speeds_of_uneven_devices_are_refused_where_all_are_alike) {
  io::Json test{{"model", "2x2x16"},
                {"device", {{"flops", 1e11}}},
                {"network", {{"ranks", 3}, {"latency_ms", 5}, {"bandwidth_gbps", 1}}}};
  for (const char* command : {"plan", "simulate", "estimate"}) {
    if (command != std::string("plan")) test["recipe"] = "ddp";
    for (const char* key : {"device_flops", "model_flops", "device_memory_gbps"})
      refused(command, with(test, std::string("/") + key, {1e11, 1e10, 1e9}),
              std::string("'") + key + "' has speeds of each device, and here all devices are alike. fix: \"device\"");
    refused(command, with(test, "/device/flops", {1e11, 1e10, 1e9}),
            "'device.flops' must be a number, not one for each device: here all devices are alike. fix: \"device\"");
  }
}

TEST_F(ReefPlan, of_a_long_text_an_error_shows_the_beginning) {
  const std::string text(100'000, 'x');
  const io::Json recipe{{"recipe", "dtfm"}, {"model", "2x2x16"}, {"device", {{"flops", 1e11}}}};
  const auto shown = [&](const std::string& command, const io::Json& test) {
    const Ending ending = plan(command, test.dump());
    expect_refusal(ending, "'" + std::string(60, 'x') + "'...");
    EXPECT_LT(ending.errors.size(), 1000U);
  };
  for (const char* key : {"/model", "/recipe", "/pipeline", "/layout", "/compress/gradients"}) {
    shown("simulate", with(recipe, key, text));
    shown("estimate", with(recipe, key, text));
  }
  shown("simulate", with(recipe, "/compress", {{text, "bf16"}}));
  shown("simulate", with(with(recipe, "/recipe", "acco"), "/accumulate", text));
  shown("simulate", with(with(recipe, "/recipe", "diloco"), "/overlap", text));
  shown("simulate", with(case_of("swap_schedule.json", 0), "/variant", text));
  shown("plan", {{"model", "2x2x16"}, {"device", {{"flops", 1e11}}}, {"allow", {text}}});
  shown("encode", {{"codec", text}});
  shown("blocks", {{"op", text}});
}

TEST_F(ReefPlan, a_network_may_be_what_reef_measure_has_written) {
  io::Json test{{"recipe", "ddp"},
                {"model", "2x2x16"},
                {"device", {{"flops", 1e11}}},
                {"network", {{"ranks", 2}, {"latency_ms", 5}, {"bandwidth_gbps", 1}}}};
  const io::Json numbers = answer("simulate", test);
  test["network"] = io::parse_json(R"({"note": "2 ranks", "devices": ["a", "b"], "latency_ms": [[0, 5], [5, 0]],
      "bandwidth_gbps": [[0, 1], [1, 0]], "reciprocal_gbps": [[0, 1], [1, 0]], "device_flops": [1e9, 1e9],
      "device_memory_gbps": [1, 1], "model_flops": [1e9, 1e9]})", "measured");
  EXPECT_EQ(answer("simulate", test), numbers);
  EXPECT_EQ(answer("estimate", test), answer("estimate", with(test, "/network/ranks", 2)));
  test.erase("recipe");
  EXPECT_EQ(answer("plan", test).at("feasible"), true);
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
  schedule.erase("model");  // of a chain a remark
  schedule.erase("recompute");
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
      EXPECT_EQ(ending.status, 2) << at << ": " << ending;
      EXPECT_THAT(ending.errors, HasSubstr(key)) << at;
    }
  }
}

TEST_F(ReefPlan, a_model_says_all_of_its_size_once) {
  io::Json test{{"recipe", "ddp"}, {"device", {{"flops", 1e11}}}};
  refused("simulate", with(test, "/model", io::Json::object()), "'model.layers' is missing");
  refused("simulate", with(test, "/model", {{"layers", 2}, {"channels", 16}}),
          "'model.heads' is missing");
  refused("simulate", with(test, "/model", {{"shape", "2x2x16"}, {"layers", 3}}),
          "'model.layers' is given, and 'model.shape' too");
  refused("simulate", with(test, "/model", {{"shape", ""}}), "'model.shape' is ''");
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
    EXPECT_THAT(slots.errors, HasSubstr("'slots' is 2")) << variant;
    EXPECT_EQ(ends(variant, {{"slots", 0}, {"turn", false}}).status, 0) << variant;
  }
  for (const char* variant : {"zero", "zero_sync"}) {
    const Ending turn = ends(variant, {{"turn", true}});
    EXPECT_EQ(turn.status, 2) << variant;
    EXPECT_THAT(turn.errors, HasSubstr("'turn'")) << variant;
  }
  EXPECT_EQ(ends("atom3", {{"slots", 2}, {"turn", true}}).status, 0);
  EXPECT_EQ(ends("atom2", {{"turn", true}}).status, 0);
}

TEST_F(ReefPlan, refuses_a_rate_of_nothing_and_says_of_which_link) {
  io::Json test{{"recipe", "ddp"},
                {"model", "2x2x16"},
                {"device", {{"flops", 1e11}}},
                {"network", {{"ranks", 2}, {"latency_ms", 1}, {"bandwidth_gbps", 1}}}};
  const auto refused = [&](const std::string& text) { this->refused("simulate", test, text); };
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

TEST_F(ReefPlan, a_trace_takes_no_foreign_files_place_and_an_earlier_one_goes_aside) {
  const std::string trace = (folder_ / "trace.json").string();
  const auto text_of = [](const std::string& file) { return io::read_file(file, 1_MiB); };
  const io::Json recipe{{"recipe", "ddp"}, {"model", "2x2x16"}, {"device", {{"flops", 1e11}}}};
  for (const io::Json& test : {case_of("swap_schedule.json", 1), recipe}) {
    std::filesystem::remove(trace + ".1");
    write_file(trace, "my notes");
    const Ending foreign = plan("simulate", test.dump(), "--trace " + trace);
    EXPECT_EQ(foreign.status, 2) << foreign;
    EXPECT_THAT(foreign.errors, HasSubstr("--trace: '" + trace + "' holds something else"));
    EXPECT_EQ(text_of(trace), "my notes");
    write_file(trace, "");
    answer("simulate", test, "--trace " + trace);
    const std::string first = text_of(trace);
    const Ending again = plan("simulate", test.dump(), "--trace " + trace);
    EXPECT_EQ(again.status, 0) << again;
    EXPECT_THAT(again.errors,
                HasSubstr("reef-plan: wrote " + trace +
                          " (what an earlier run left there is now in " + trace + ".1)"));
    EXPECT_EQ(text_of(trace + ".1"), first);
    EXPECT_EQ(text_of(trace), first);
  }
  const Ending link =
      plan("simulate", recipe.dump(), "--trace " + (folder_ / "case.json").string());
  EXPECT_EQ(link.status, 2);
  const Ending none = plan("simulate", recipe.dump(), "--trace ''");
  EXPECT_EQ(none.status, 2) << none;
  EXPECT_THAT(none.errors, HasSubstr("'' is no path"));
}

}  // namespace
}  // namespace reef::test
