// Recipes that are simulated, and what is chosen of them.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "reef_plan_case.hpp"

namespace reef::test {

namespace {

io::Json recipe_case(const std::string& recipe, int ranks = 4) {
  return {{"recipe", recipe},
          {"model", {{"shape", "6x4x64"}, {"context", 64}, {"batch", 4}}},
          {"micro_batches", 4},
          {"device", {{"flops", 1e10}}},
          {"network", {{"ranks", ranks}, {"latency_ms", 1}, {"bandwidth_gbps", 0.1}}}};
}

/// What is to be planned: four ranks of which the first and the third, and the others, have quick links.
io::Json planned_case() {
  io::Json test = recipe_case("");
  test.erase("recipe");
  test["micro_batches"] = 8;
  io::Json bandwidth = io::Json::array();
  for (int from = 0; from < 4; ++from) {
    bandwidth.push_back(io::Json::array());
    for (int to = 0; to < 4; ++to) bandwidth.back().push_back((from + to) % 2 == 0 ? 10 : 0.01);
  }
  test["network"] = {{"latency_ms", 1}, {"bandwidth_gbps", bandwidth}, {"ranks", 4}};
  return test;
}

/// The same of a model's file.
io::Json planned_case_of(const std::string& graph) {
  io::Json test = planned_case();
  test.erase("model");
  test["graph"] = graph;
  return test;
}

/// Two ranks with less memory than half of a model takes.
io::Json small_case(Bytes memory, int micro_batches) {
  return {{"model", {{"shape", "2x2x16"}, {"context", 16}, {"batch", 2}}},
          {"micro_batches", micro_batches},
          {"device", {{"flops", 1e9}, {"memory_bytes", memory}, {"link_gbps", 1}}},
          {"network", {{"ranks", 2}, {"latency_ms", 1}, {"bandwidth_gbps", 0.01}}}};
}

/// Four ranks whose links take longer than their micro-batches.
io::Json slow_case(const std::vector<std::string>& allow) {
  io::Json test = recipe_case("");
  test.erase("recipe");
  test["micro_batches"] = 8;
  test["network"]["bandwidth_gbps"] = 0.01;
  test["allow"] = allow;
  return test;
}

/// What a plan says of a choice.
io::Json bought(const io::Json& plan, const std::string& choice) {
  for (const io::Json& one : plan.at("bought")) {
    if (one.at("choice") == choice) return one;
  }
  ADD_FAILURE() << choice << " is not among " << plan.at("bought");
  return {{"factor", 0}};
}

}  // namespace

TEST_F(ReefPlan, simulate_foresees_stages_of_which_one_is_zero1) {
  const double zero1 = answer("simulate", recipe_case("zero1")).at("step_s");
  io::Json stages = with(recipe_case("dtfm"), "/stages", 1);
  EXPECT_DOUBLE_EQ(answer("simulate", stages).at("step_s").get<double>(), zero1);
  stages["stages"] = 4;
  for (const char* const pipeline : {"gpipe", "zb-h1"}) {
    EXPECT_EQ(answer("simulate", with(stages, "/pipeline", pipeline)).at("feasible"), true) << pipeline;
  }
  // What updates within a step clips by no norm of all gradients.
  for (const char* const pipeline : {"pipedream", "2bw"}) {
    EXPECT_EQ(answer("simulate", with(stages, "/pipeline", pipeline)).at("feasible"), true) << pipeline;
  }
  refused("simulate", with(stages, "/pipeline", "wide"), "three-slot, pipedream, 2bw, searched");
  const io::Json plain = answer("simulate", stages);
  io::Json encoded = with(stages, "/compress", {{"activations", "top-k:10"}});
  encoded["one_mask"] = true;
  const io::Json less = answer("simulate", encoded);
  EXPECT_LT(less.at("wire_bytes").get<double>(), plain.at("wire_bytes").get<double>() / 5);
  EXPECT_LT(less.at("step_s").get<double>(), plain.at("step_s").get<double>());
  refused("simulate", with(stages, "/adapt_ratios", true), "no codec between stages has a ratio");
  refused("simulate", with(stages, "/stages", 3), "there are 3 stages on 4 ranks");
  refused("simulate", with(stages, "/rank_at", {0, 1, 2, 2}), "'rank_at' is no order of the ranks");
  refused("simulate", with(stages, "/compress", {{"weights", "bf16"}}), "the channel 'weights'");
  refused("simulate", with(recipe_case("ddp"), "/stages", 2), "'stages' is not of recipe ddp");
  refused("simulate", with(recipe_case("atom"), "/compress", {{"gradients", "bf16"}}), "recipe atom has 'compress'");
}

/// Recipes that stand for several options: fusion is dtfm with them, reef swaps and reduces beside its micro-batches too.
TEST_F(ReefPlan, integers_of_a_case_may_be_written_as_real_numbers) {
  io::Json test = with(recipe_case("dtfm"), "/device/memory_bytes", 4'000'000'000);
  const io::Json wanted = answer("simulate", test);
  std::string text = test.dump();
  text.replace(text.find("4000000000"), 10, "4e9");
  const Ending real = plan("simulate", text);
  EXPECT_EQ(real.status, 0) << real;
  EXPECT_EQ(io::parse_json(real.output, "answer"), wanted);
  refused("simulate", with(test, "/device/memory_bytes", 4e9 + 0.5), "'device.memory_bytes' must be an integer");
  refused("simulate", with(test, "/micro_batches", 1.5), "'micro_batches' must be an integer");
  refused("simulate", with(test, "/device/memory_bytes", {8e9, 4e9}),
          "'device.memory_bytes' must be a number, not one for each device: here all devices are alike");
  refused("simulate", with(test, "/device/memory_bytes", {8e9, 4e9}), "reef-plan op-fence takes (cap, speed)");
}

TEST_F(ReefPlan, a_model_that_is_a_text_may_have_its_context_batch_and_vocabulary_beside_it) {
  const io::Json object = with(recipe_case("dtfm"), "/model", {{"shape", "2x4x64"}, {"context", 32}, {"batch", 2}, {"vocabulary", 100}});
  io::Json beside = with(object, "/model", "2x4x64");
  for (const auto& [key, value] : {std::pair{"context", 32}, std::pair{"batch", 2}, std::pair{"vocabulary", 100}}) beside[key] = value;
  EXPECT_EQ(answer("simulate", beside), answer("simulate", object));
  refused("simulate", with(beside, "/context", 0), "context is 0");
  refused("simulate", with(object, "/context", 32), "'context' is of a model that is a text");
  refused("simulate", with(with(object, "/batch", 4), "/model", {{"shape", "2x4x64"}}), "\"model\": {..., \"batch\": ...}");
}

TEST_F(ReefPlan, simulate_lays_stages_out_by_op_fence_where_they_fit_as_they_are_placed) {
  io::Json test = with(recipe_case("dtfm"), "/layout", "op-fence");
  const io::Json free = answer("simulate", test);
  const auto peak = free.at("peak_device_bytes").get<std::uint64_t>();
  const io::Json bounded = answer("simulate", with(test, "/device/memory_bytes", peak));
  EXPECT_EQ(bounded.at("feasible"), true) << bounded;
  EXPECT_EQ(bounded.at("step_s"), free.at("step_s"));
  // With less than all would have as they are, others fit; what is planned is what is proved.
  const io::Json less = answer("simulate", with(test, "/device/memory_bytes", peak - 64));
  if (less.at("feasible").get<bool>()) {
    EXPECT_LT(less.at("peak_device_bytes").get<std::uint64_t>(), peak);
  }
}

TEST_F(ReefPlan, simulate_foresees_recipes_of_several_axes) {
  io::Json spelt = with(recipe_case("dtfm"), "/compress", {{"activations", "top-k:10"}});
  spelt.update({{"one_mask", true}, {"adapt_ratios", true}, {"layout", "op-fence"}});
  EXPECT_EQ(answer("simulate", recipe_case("fusion")), answer("simulate", spelt));
  EXPECT_NE(answer("simulate", recipe_case("fusion")), answer("simulate", recipe_case("dtfm")));

  io::Json all = small_case(310'000, 8);
  all["model"]["batch"] = 1;
  all["recipe"] = "reef";
  const io::Json small = answer("simulate", all);
  ASSERT_EQ(small.at("feasible"), true) << small;
  EXPECT_LE(small.at("peak_device_bytes").get<double>(), 310e3);
  const io::Json stays = answer("simulate", with(with(all, "/recipe", "fusion"), "/layout", "balanced"));
  EXPECT_THAT(stays.at("why").get<std::string>(), HasSubstr("the recipe needs"));
  EXPECT_NE(answer("simulate", with(all, "/unit", 0)).at("step_s"), small.at("step_s"));
  const io::Json needs = answer("estimate", all);
  EXPECT_EQ(needs.at("feasible"), true);
  EXPECT_GT(needs.at("bytes").at("host").get<double>(), needs.at("bytes").at("weights").get<double>());
  refused("simulate", with(all, "/micro_batches", 3), "3 micro-batches over 2 phases");
  refused("simulate", with(recipe_case("ddp"), "/unit", 2), "'unit' is not of recipe ddp");
  refused("simulate", with(all, "/layout", "wide"), "layout is 'wide'");
}

/// The mean of a period: with ever longer ones that of a rank alone.
TEST_F(ReefPlan, simulate_foresees_phases_that_accumulate) {
  const io::Json fixed = with(recipe_case("acco"), "/network/bandwidth_gbps", 0.01);
  const io::Json adaptive = answer("simulate", with(fixed, "/accumulate", "adaptive"));
  EXPECT_GT(adaptive.at("micro_batches").get<int>(), 2 * 4 * 4) << "links are slow";
  EXPECT_GT(adaptive.at("utilisation").get<double>(), 0.9);
  const io::Json capped = answer("simulate", with(fixed, "/accumulate", "cap:3"));
  EXPECT_EQ(capped.at("micro_batches"), 4 * 2 * 3) << "three of each rank in each of two phases";
  EXPECT_LT(capped.at("utilisation"), adaptive.at("utilisation"));
  const io::Json exact = answer("simulate", fixed);
  EXPECT_FALSE(exact.contains("micro_batches"));
  EXPECT_LT(exact.at("utilisation").get<double>(), 0.5);

  // Links on which nothing would ever end.
  const std::string never = "accumulate cap:M";
  refused("simulate", with(with(fixed, "/accumulate", "adaptive"), "/network/bandwidth_gbps", 8e-9), never);
  refused("simulate", with(with(fixed, "/accumulate", "cap:65536"), "/network/latency_ms", 1e9), "or more");

  io::Json stages = with(with(recipe_case("reef"), "/stages", 2), "/network/bandwidth_gbps", 0.01);
  const double alone = answer("simulate", stages).at("utilisation").get<double>();
  const io::Json together = answer("simulate", with(stages, "/accumulate", "adaptive"));
  const int taken = together.at("micro_batches").get<int>();
  const int phase = stages.at("micro_batches").get<int>() / 2;
  EXPECT_GT(taken, 2 * 2 * phase) << "of two replicas";
  EXPECT_EQ(taken % phase, 0) << "stages take as many again";
  EXPECT_GT(together.at("utilisation").get<double>(), alone);
  refused("simulate", with(recipe_case("ddp"), "/accumulate", "adaptive"), "'accumulate' is not of recipe ddp");
  refused("simulate", with(fixed, "/accumulate", "always"), "accumulate is 'always'");
  refused("simulate", with(fixed, "/accumulate", "cap:0"), "accumulate is 'cap:0'");
  refused("simulate", with(fixed, "/accumulate", "cap:1"), "at least 2 and at most 1 micro-batches");
}

/// The same model as a file and as a shape.
TEST_F(ReefPlan, simulate_foresees_a_model_that_is_a_file) {
  for (const char* const recipe : {"zero1", "acco", "fusion", "reef"}) {
    const io::Json shape = with(recipe_case(recipe), "/model", {{"shape", "2x4x64"}, {"context", 64}, {"batch", 8}});
    io::Json test = shape;
    test.erase("model");
    test["graph"] = graph("gpt.json");
    EXPECT_EQ(answer("simulate", test), answer("simulate", shape)) << recipe;
    EXPECT_EQ(answer("estimate", test), answer("estimate", shape)) << recipe;
  }
  io::Json other = recipe_case("dtfm");
  refused("simulate", with(other, "/graph", graph("gpt.json")), "'graph' is given, and 'model' too");
  other.erase("model");
  refused("simulate", other, "or 'graph', a model's file");
  EXPECT_EQ(answer("simulate", with(other, "/graph", graph("branches.json"))).at("feasible"), true);
  refused("simulate", with(other, "/graph", (folder_ / "none.json").string()), "none.json");
  io::Json no_loss = io::read_json(graph("gpt.json"));
  no_loss.erase("loss");
  const std::string file = (folder_ / "graph.json").string();
  write_file(file, no_loss.dump());
  refused("simulate", with(other, "/graph", file), "it has no loss");
  no_loss["loss"] = "loss";
  no_loss["nodes"].back()["kind"] = "Nonsense";
  write_file(file, no_loss.dump());
  refused("simulate", with(other, "/graph", file), "Nonsense");
  refused("plan", with(planned_case_of(file), "/allow", {"late"}), "Nonsense");
}

TEST_F(ReefPlan, a_network_may_be_a_file_as_reef_measure_writes_it) {
  const std::string file = (folder_ / "network.json").string();
  // With what reef-measure writes beside links.
  write_file(file, R"({"note": "measured", "devices": ["a", "b"], "latency_ms": [[0, 20], [20, 0]], "bandwidth_gbps": [[0, 1], [2, 0]],
    "reciprocal_gbps": [[0, 1], [1, 0]], "device_flops": [1e12, 2e12], "device_memory_gbps": [100, 100]})");
  const io::Json apart = with(recipe_case("ddp"), "/network", file);
  io::Json within = apart;
  within["network"] = io::read_json(file);
  EXPECT_EQ(answer("simulate", apart), answer("simulate", within));
  EXPECT_EQ(answer("estimate", apart), answer("estimate", within));
  io::Json planned = apart;
  planned.erase("recipe");
  within.erase("recipe");
  EXPECT_EQ(answer("plan", planned), answer("plan", within));
  refused("simulate", with(apart, "/network", (folder_ / "none.json").string()), "none.json");
  write_file(file, R"({"latency_ms": 20, "bandwidth_gbps": 1})");
  refused("simulate", apart, file + ": 'ranks' is missing");
  write_file(file, R"({"ranks": 2, "latency_ms": 20, "bandwidth": 1})");
  refused("simulate", apart, "bandwidth");
  write_file(file, "[1, 2]");
  refused("simulate", apart, file);
}

TEST_F(ReefPlan, simulate_foresees_ranks_that_step_on_their_own) {
  io::Json test = recipe_case("diloco");
  const double alone = answer("simulate", recipe_case("ddp", 1)).at("step_s");
  double before = 1e9;
  for (const int every : {1, 10, 1000}) {
    test["sync_every"] = every;
    const double step = answer("simulate", test).at("step_s");
    EXPECT_LT(step, before) << every;
    before = step;
  }
  EXPECT_NEAR(before, alone, alone / 100);
  EXPECT_GT(answer("simulate", test).at("utilisation"), 0.95);
  refused("simulate", with(test, "/fragments", 1000), "there are 1000 fragments");
  test["sync_every"] = 10;
  const io::Json whole = answer("simulate", test);
  const io::Json parts = answer("simulate", with(test, "/fragments", 5));
  EXPECT_NEAR(parts.at("wire_bytes").get<double>(), whole.at("wire_bytes").get<double>(),
              whole.at("wire_bytes").get<double>() / 20);
  test["recipe"] = "sparse";
  EXPECT_LT(answer("simulate", test).at("wire_bytes").get<double>(), whole.at("wire_bytes").get<double>() / 20);
}

TEST_F(ReefPlan, plan_chooses_what_simulate_finds_fastest_and_says_what_each_choice_buys) {
  const io::Json found = answer("plan", planned_case());
  ASSERT_EQ(found.at("feasible"), true) << found;
  const double best = found.at("best").at("step_s");
  double last = 0;
  std::size_t feasible = 0;
  for (const io::Json& one : found.at("candidates")) {
    if (!one.contains("step_s")) continue;
    ++feasible;
    EXPECT_GE(one.at("step_s"), last) << "the fastest first";
    last = one.at("step_s");
  }
  EXPECT_GE(feasible, 8U);
  EXPECT_EQ(found.at("candidates")[0], found.at("best"));
  // Gradients over quick links, activations over slow ones, or the other way: not data parallelism over all.
  EXPECT_EQ(found.at("best").at("recipe"), "dtfm");
  std::vector<std::string> choices;
  for (const io::Json& one : found.at("bought")) {
    EXPECT_GE(one.at("step_s").get<double>(), best * 0.999) << one;
    choices.push_back(one.at("choice"));
  }
  for (const char* const choice : {"placement", "recipe", "stages", "schedule", "accumulation"}) {
    EXPECT_NE(std::find(choices.begin(), choices.end(), choice), choices.end()) << choice;
  }
  // The same by simulate.
  io::Json again = planned_case();
  const io::Json& options = found.at("options");
  again["recipe"] = "dtfm";
  again["model"]["batch"] = std::stoi(options.at("--batch").get<std::string>());
  again["layout"] = options.at("--layout");
  again["micro_batches"] = std::stoi(options.at("--micro-batches").get<std::string>());
  again["stages"] = std::stoi(options.at("--stages").get<std::string>());
  again["pipeline"] = options.at("--pipeline");
  again["rank_at"] = io::parse_json("[" + options.at("--place").get<std::string>() + "]", "ranks");
  EXPECT_DOUBLE_EQ(answer("simulate", again).at("step_s").get<double>(), best);
}

TEST_F(ReefPlan, plan_takes_codecs_and_late_gradients_where_they_are_allowed) {
  const io::Json exact = answer("plan", planned_case());
  for (const io::Json& one : exact.at("candidates")) {
    const auto name = one.at("name").get<std::string>();
    EXPECT_EQ(name.find("top-k"), std::string::npos) << name;
    EXPECT_TRUE(name.starts_with("ddp") || name.starts_with("zero1") || name.starts_with("dtfm")) << name;
  }
  const std::string file = (folder_ / "plan.json").string();
  const io::Json lossy = answer("plan", with(planned_case(), "/allow", {"lossy", "late", "local"}), "--plan " + file);
  EXPECT_LT(lossy.at("best").at("step_s").get<double>(), exact.at("best").at("step_s").get<double>());
  EXPECT_EQ(io::read_json(file).at("options"), lossy.at("options"));
  EXPECT_EQ(plan("plan", planned_case().dump(), "--plan " + file).status, 0) << "in place of an earlier one";
  write_file(file, "something else");
  refused("plan", planned_case(), "holds something else than an earlier plan", "--plan " + file);
  io::Json small = planned_case();
  small["device"]["memory_bytes"] = 1000;
  const io::Json none = answer("plan", small);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("no recipe fits; the nearest is "));
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr(none.at("candidates")[0].at("why").get<std::string>()));
  refused("plan", with(planned_case(), "/allow", {"wrong"}), "allow has 'wrong'");
  refused("plan", with(planned_case(), "/recipe", "ddp"), "nothing reads the key 'recipe'");
  EXPECT_EQ(answer("plan", with(planned_case(), "/micro_batches", 3)).at("best").at("replicas"), 1) << "three are shared by none";
}

TEST_F(ReefPlan, plan_takes_more_samples_a_step_where_a_case_allows_it) {
  const io::Json fixed = answer("plan", slow_case({"late"}));
  for (const io::Json& one : fixed.at("candidates")) {
    EXPECT_EQ(one.at("accumulate"), "fixed");
    EXPECT_EQ(one.at("samples"), 8 * 4) << one;
  }
  // As many as there is time for.
  const io::Json found = answer("plan", slow_case({"late", "adaptive"}));
  const io::Json& best = found.at("best");
  EXPECT_EQ(best.at("accumulate"), "adaptive") << found;
  EXPECT_GT(best.at("samples"), 8 * 4);
  EXPECT_GT(best.at("utilisation"), 0.9);
  EXPECT_GT(best.at("samples_per_s").get<double>(), 2 * fixed.at("best").at("samples_per_s").get<double>());
  EXPECT_EQ(found.at("options").at("--accumulate"), "adaptive");
  double last = 1e18;
  for (const io::Json& one : found.at("candidates")) {
    EXPECT_LE(one.at("samples_per_s").get<double>(), last * 1.001) << "the most samples a second first";
    last = one.at("samples_per_s");
    EXPECT_GE(one.at("samples"), 8 * 4) << one;
  }
  // That counts follow the clock is worth little beside as many fixed ones: the rest is that steps are larger.
  const double gained = bought(found, "adaptive counts").at("factor");
  EXPECT_GT(gained, 2);
  EXPECT_NEAR(bought(found, "adaptive counts, not as many fixed ones").at("factor").get<double>(), 1, 0.2);
  // The same by simulate.
  io::Json again = slow_case({});
  again.erase("allow");
  again["recipe"] = best.at("recipe");
  again["model"]["batch"] = best.at("batch");
  again["micro_batches"] = best.at("micro_batches");
  again["accumulate"] = "adaptive";
  const io::Json simulated = answer("simulate", again);
  EXPECT_EQ(simulated.at("step_s"), best.at("step_s"));
  EXPECT_EQ(simulated.at("micro_batches").get<int>() * best.at("batch").get<int>(), best.at("samples"));
}

TEST_F(ReefPlan, plan_keeps_to_the_samples_that_a_step_may_have) {
  const io::Json capped = answer("plan", with(slow_case({"late", "adaptive"}), "/most_micro_batches", 24));
  std::size_t adapting = 0;
  for (const io::Json& one : capped.at("candidates")) {
    EXPECT_LE(one.at("samples"), 24 * 4) << one;
    const auto accumulate = one.at("accumulate").get<std::string>();
    EXPECT_TRUE(accumulate == "fixed" || accumulate.starts_with("cap:")) << one;
    adapting += accumulate != "fixed";
  }
  EXPECT_GT(adapting, 0U);
  // Fixed counts alone: any recipe may take more.
  const io::Json found = answer("plan", with(slow_case({}), "/most_micro_batches", 24));
  EXPECT_EQ(found.at("best").at("samples"), 24 * 4) << found.at("best");
  EXPECT_FALSE(found.at("options").contains("--accumulate")) << "of recipes that adapt";
  EXPECT_GT(bought(found, "larger steps").at("factor"), 1.2);
  for (const io::Json& one : found.at("candidates")) EXPECT_EQ(one.at("accumulate"), "fixed");
  refused("plan", with(slow_case({}), "/most_micro_batches", 7), "most_micro_batches is 7");
  refused("plan", slow_case({"adaptive"}), "allow has 'adaptive' without 'late'");
}

TEST_F(ReefPlan, plan_adapts_no_counts_for_nothing) {
  const io::Json quick = with(slow_case({"late", "adaptive"}), "/network/bandwidth_gbps", 100);
  const io::Json found = answer("plan", quick);
  EXPECT_EQ(found.at("best").at("accumulate"), "fixed") << found.at("best");
  EXPECT_EQ(found.at("best").at("samples"), 8 * 4);
  // Links that hide all but a little under acco: what adapts takes as many a second, and fixed counts are before it.
  const auto& all = found.at("candidates");
  const auto place = [&](const std::string& accumulate) {
    return std::find_if(all.begin(), all.end(), [&](const io::Json& one) { return one.at("recipe") == "acco" && one.at("accumulate") == accumulate; });
  };
  EXPECT_LT(place("fixed"), place("adaptive"));
  EXPECT_NE(place("adaptive"), all.end());
}

/// What is allowed is taken where it gains something.
TEST_F(ReefPlan, plan_gives_up_nothing_where_links_are_quick) {
  io::Json quick = slow_case({"late", "local", "lossy", "adaptive"});
  quick["network"].update({{"bandwidth_gbps", 1000}, {"latency_ms", 0.001}});
  const io::Json found = answer("plan", quick);
  const auto name = found.at("best").at("name").get<std::string>();
  EXPECT_TRUE(name.starts_with("ddp") || name.starts_with("zero1") || name.starts_with("dtfm")) << name;
  for (const io::Json& codec : found.at("options").value("--compress", io::Json::array())) EXPECT_THAT(codec.get<std::string>(), HasSubstr("none"));
  const auto& all = found.at("candidates");
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const io::Json& one) { return one.at("recipe") == "acco"; }));
}

TEST_F(ReefPlan, plan_says_what_of_adapting_cannot_be) {
  // One more of each of four replicas in each of two phases would be 16.
  const io::Json bounded = answer("plan", with(slow_case({"late", "adaptive"}), "/most_micro_batches", 9));
  EXPECT_THAT(bounded.at("notes")[0].get<std::string>(), HasSubstr("nothing adapts"));
  io::Json slow = slow_case({"late", "adaptive"});
  slow["network"]["bandwidth_gbps"] = 3e-5;
  const io::Json found = answer("plan", slow);
  EXPECT_THAT(bought(found, "adaptive counts, not as many fixed ones").at("why").get<std::string>(), HasSubstr("too many"));
  slow["network"]["bandwidth_gbps"] = 1e-7;
  const io::Json endless = answer("plan", slow);
  EXPECT_EQ(endless.at("best").at("accumulate"), "fixed");
  EXPECT_THAT(endless.at("notes")[0].get<std::string>(), HasSubstr("fix: most_micro_batches"));
}

TEST_F(ReefPlan, plan_leaves_the_samples_of_a_micro_batch_to_a_models_file) {
  const io::Json found = answer("plan", planned_case_of(graph("branches.json")));
  ASSERT_EQ(found.at("feasible"), true) << found;
  EXPECT_EQ(found.at("options").at("--graph"), graph("branches.json"));
  const std::string relative = std::filesystem::relative(graph("branches.json")).string();
  EXPECT_EQ(answer("plan", planned_case_of(relative)).at("options").at("--graph"), graph("branches.json"));
  refused("plan", with(planned_case_of(relative), "/micro_batches", 60000), " nodes, 60000 micro-batches");
  for (const char* const option : {"--model", "--context", "--batch"}) EXPECT_FALSE(found.at("options").contains(option)) << option;
  EXPECT_GT(found.at("candidates").size(), 6U);
  for (const io::Json& one : found.at("candidates")) EXPECT_EQ(one.at("batch"), 8) << one;
}

TEST_F(ReefPlan, plan_swaps_a_model_that_fits_no_device) {
  const io::Json test = small_case(310'000, 2);
  const io::Json exact = answer("plan", test);
  ASSERT_EQ(exact.at("feasible"), true) << exact;
  EXPECT_EQ(exact.at("best").at("recipe"), "atom");
  EXPECT_EQ(exact.at("options").at("--device-memory"), "310000");
  EXPECT_EQ(exact.at("options").at("--device-link"), "1");
  EXPECT_EQ(exact.at("options").at("--batch"), "1") << "each segment comes once for two micro-batches";
  // Stages that swap too, where gradients may be late.
  const io::Json late = answer("plan", with(test, "/allow", {"late", "lossy"}));
  ASSERT_EQ(late.at("feasible"), true);
  EXPECT_EQ(late.at("best").at("recipe"), "reef");
  EXPECT_EQ(late.at("options").at("--micro-batches"), "2") << "in each of two phases";
  EXPECT_LT(late.at("best").at("step_s").get<double>(), exact.at("best").at("step_s").get<double>());
  for (const io::Json& one : late.at("candidates")) {
    EXPECT_LE(one.value("peak_device_bytes", 0.0), 310e3) << one;
  }
}

TEST_F(ReefPlan, plan_says_that_it_plans_what_is_swapped_and_heeds_a_budget) {
  const io::Json test = with(small_case(310'000, 2), "/allow", {"late"});
  EXPECT_THAT(plan("plan", test.dump()).errors, HasSubstr("recipes simulated; now atom, 1 stage, whose swapping is planned\n"));
  const io::Json all = answer("plan", test);
  EXPECT_FALSE(all.contains("left_out"));
  const io::Json some = answer("plan", test, "--budget 0.000001");
  EXPECT_GT(some.at("left_out"), 0);
  EXPECT_EQ(some.at("candidates").size(), 1U);
  EXPECT_EQ(some.at("feasible"), false) << "what fits swaps, and that comes last";
  EXPECT_THAT(some.at("why").get<std::string>(), HasSubstr("that the budget had time for"));
}

}  // namespace reef::test
