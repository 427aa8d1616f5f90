// What reef-plan plans is what reef-train runs: it takes the options, and its devices and links see what was foreseen.

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "reef_plan_case.hpp"
#include "reef_train_job.hpp"

namespace reef::test {

namespace {

/// Two ranks on a link that is slow.
io::Json network(double gbps = 0.2) { return {{"latency_ms", {{0, 1}, {1, 0}}}, {"bandwidth_gbps", {{0, gbps}, {gbps, 0}}}}; }

io::Json job() {
  io::Json test{{"model", {{"shape", "2x2x16"}, {"context", 16}, {"batch", 2}}},
                {"micro_batches", 4},
                {"device", {{"flops", 1e10}}},
                {"network", network()}};
  test["network"]["ranks"] = 2;
  return test;
}

}  // namespace

class ReefPlanTrain : public ReefPlan {
protected:
  /// Two steps of a plan, and what their metrics say: by step, and at the end.
  std::vector<io::Json> run(const io::Json& options, const std::string& name, const io::Json& links, const std::string& more = "") {
    const std::string plan = (folder_ / (name + ".json")).string();
    const std::string metrics = (folder_ / (name + ".jsonl")).string();
    const std::string text = (folder_ / "text.txt").string();
    const std::string shape = (folder_ / "network.json").string();
    std::string lines;
    for (int line = 0; line < 400; ++line) lines += "the quick brown fox jumps over the lazy dog\n";
    write_file(text, lines);
    write_file(shape, links.dump());
    write_file(plan, io::Json{{"options", options}, {"ranks", 2}}.dump());
    const Ending end = run_ranks(REEF_TEST_MPIEXEC, 2, REEF_TRAIN " --plan " + plan + " --data " + text +
                                   " --network " + shape + " --threads 1 --steps 2 --prompt-bytes 4 --metrics " + metrics + " " + more);
    EXPECT_EQ(end.status, 0) << name << ": " << end;
    std::ifstream file(metrics);
    std::vector<io::Json> all;
    for (std::string line; std::getline(file, line);) all.push_back(io::parse_json(line, name));
    EXPECT_TRUE(!all.empty() && all.back().contains("summary")) << name;
    return all;
  }

  /// Holds that options are taken, and that two steps of them need what was foreseen.
  void expect_as_foreseen(const io::Json& options, const io::Json& foreseen, const std::string& name) {
    double sent = 0;
    double peak = 0;
    for (const io::Json& step : run(options, name, network())) {
      if (step.contains("summary")) peak = step.at("peak_device_bytes").get<double>();
      if (!step.contains("summary") && step.contains("links")) {
        sent = 0;
        for (const io::Json& link : step.at("links")) sent += link.at("wire_bytes").get<double>();
      }
    }
    EXPECT_EQ(peak, foreseen.at("peak_device_bytes").get<double>()) << name;
    // Losses, counts and norms are of no channel.
    EXPECT_NEAR(sent, foreseen.at("wire_bytes").get<double>(), 256) << name;
  }
};

TEST_F(ReefPlanTrain, a_plan_needs_the_memory_and_the_wire_that_it_says) {
  const std::string file = (folder_ / "planned.json").string();
  const io::Json lossy = answer("plan", with(job(), "/allow", {"lossy"}), "--plan " + file);
  ASSERT_EQ(lossy.at("feasible"), true) << lossy;
  expect_as_foreseen(io::read_json(file).at("options"), lossy.at("best"), "lossy");
  io::Json small = with(job(), "/device", {{"flops", 1e10}, {"memory_bytes", 310'000}, {"link_gbps", 1}});
  small["allow"] = {"lossy", "late"};
  const io::Json swapped = answer("plan", small);
  ASSERT_EQ(swapped.at("feasible"), true) << swapped;
  EXPECT_EQ(swapped.at("best").at("recipe"), "reef");
  expect_as_foreseen(swapped.at("options"), swapped.at("best"), "swapped");
}

/// Operators and links take as long as they were said to.
TEST_F(ReefPlanTrain, a_plan_says_whether_counts_follow_the_clock) {
  const io::Json slow = network(0.002);
  io::Json test = with(with(job(), "/device/flops", 1e8), "/network", slow);
  test["network"]["ranks"] = 2;
  const io::Json adaptive = answer("plan", with(test, "/allow", {"late", "adaptive"}));
  ASSERT_EQ(adaptive.at("best").at("accumulate"), "adaptive") << adaptive;
  ASSERT_EQ(adaptive.at("best").at("recipe"), "acco");
  const double given = adaptive.at("best").at("micro_batches");
  const double foreseen = adaptive.at("best").at("samples").get<double>() / adaptive.at("best").at("batch").get<double>() / 2;
  EXPECT_GT(foreseen, 4 * given);
  io::Json taken;
  const auto is_near = [&](const io::Json& of_rank) { return of_rank > 2 * given && of_rank < 1.5 * foreseen; };
  bool follows = false;  // on a busy machine not in every run
  for (int attempt = 0; attempt < 10 && !follows; ++attempt) {
    taken = run(adaptive.at("options"), "adaptive", slow, "--device-flops 0.1").back().at("micro_batches");
    follows = std::all_of(taken.begin(), taken.end(), is_near);
  }
  EXPECT_TRUE(follows) << taken << " on the ranks, where " << foreseen << " were foreseen";
  // acco with counts that are fixed, also where links leave time for more.
  const io::Json fixed = answer("plan", with(with(test, "/network/bandwidth_gbps", 1), "/allow", {"late"}));
  ASSERT_EQ(fixed.at("best").at("recipe"), "acco") << fixed;
  const io::Json& each = fixed.at("best").at("micro_batches");
  EXPECT_EQ(run(fixed.at("options"), "fixed", slow, "--device-flops 0.1").back().at("micro_batches"), io::Json({each, each}));
}

TEST_F(ReefPlanTrain, a_model_that_is_a_file_is_foreseen_as_it_runs) {
  io::Json test = job();
  test.erase("model");
  test["graph"] = graph("branches.json");
  const io::Json found = answer("plan", test);
  ASSERT_EQ(found.at("feasible"), true) << found;
  expect_as_foreseen(found.at("options"), found.at("best"), "graph");
}

TEST_F(ReefPlanTrain, few_trained_parameters_are_planned_as_they_run) {
  const io::Json whole = answer("plan", job());
  io::Json test = job();
  test["lora"] = "2:4:c_attn,c_proj";
  test["freeze"] = "transformer.h.0.*";
  const io::Json few = answer("plan", test);
  ASSERT_EQ(few.at("feasible"), true) << few;
  EXPECT_EQ(few.at("options").at("--lora"), "2:4:c_attn,c_proj");
  expect_as_foreseen(few.at("options"), few.at("best"), "few");
  EXPECT_LT(few.at("best").at("peak_device_bytes"), whole.at("best").at("peak_device_bytes"));
  test["lora"] = "2:4:";
  refused("plan", test, "lora: '2:4:' is not RANK");
  test["lora"] = "0";
  refused("simulate", with(test, "/recipe", "ddp"), "lora: ");
}

/// The same by name: fusion and reef are the options that they stand for.
TEST_F(ReefPlanTrain, recipes_of_several_axes_are_foreseen_as_they_run) {
  for (const char* const recipe : {"fusion", "reef"}) {
    io::Json test = job();
    test["recipe"] = recipe;
    test["layout"] = "balanced";
    const io::Json options{{"--recipe", recipe}, {"--model", "2x2x16"},     {"--context", "16"},     {"--batch", "2"},
                           {"--stages", "2"},    {"--layout", "balanced"}, {"--place", "0,1"},
                           {"--micro-batches", std::string(recipe) == "reef" ? "2" : "4"}};
    expect_as_foreseen(options, answer("simulate", test), recipe);
  }
}

}  // namespace reef::test
