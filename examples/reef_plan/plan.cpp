// The recipe of reef-train that a step takes least time with on machines that are described: all that may be are simulated.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/profile/network.hpp>

#include "commands.hpp"
#include "foreseen.hpp"
#include "recipe_case.hpp"

namespace reef_examples {

namespace {

using namespace reef;

/// What a plan may change of what is computed.
struct Allowed {
  bool late = false;   ///< gradients of earlier weights: acco, dpu
  bool local = false;  ///< ranks that step on their own: diloco, sparse
  bool lossy = false;  ///< codecs
};

/// A recipe, and what it is foreseen to take.
struct Candidate {
  RecipeCase recipe;
  Foreseen foreseen;
};

Allowed allowed_by(const io::Json& test, const std::string& file) {
  Allowed allowed;
  for (const std::string& what : io::value_or<std::vector<std::string>>(test, "allow", {}, file)) {
    if (what == "late") {
      allowed.late = true;
    } else if (what == "local") {
      allowed.local = true;
    } else if (what == "lossy") {
      allowed.lossy = true;
    } else {
      refuse(file, "allow has '" + what + "'", "late, local, lossy");
    }
  }
  return allowed;
}

/// Ranks by replica and stage, so that those who talk much have good links, of which none is better than its ends; nothing
/// where all are alike.
std::vector<int> placed(const RecipeCase& asked, std::uint64_t seed) {
  plan::AllocationProblem problem;
  problem.network = asked.network();
  bool even = true;
  for (int from = 0; from < asked.ranks; ++from) {
    for (int to = 0; to < asked.ranks; ++to) {
      even = even && (from == to || (problem.network.latency(from, to) == problem.network.latency(0, 1) &&
                                     problem.network.rate(from, to) == problem.network.rate(0, 1)));
    }
  }
  if (even) return {};
  problem.stages = asked.stages;
  problem.pipelines = asked.ranks / asked.stages;
  const auto& model = asked.model;
  problem.activation_bytes = 4.0 * asked.micro_batches *
                             static_cast<double>(model.batch * model.context * model.channels);
  // Twelve times the square of the channels is what a layer of a GPT has.
  problem.gradient_bytes = 4.0 * 12 * static_cast<double>(model.channels * model.channels * model.layers) / asked.stages;
  std::vector<int> ranks;
  for (const auto& pipeline : plan::allocate(problem, {.seed = seed, .effort = 4}).sigma) {
    ranks.insert(ranks.end(), pipeline.begin(), pipeline.end());
  }
  return ranks;
}

/// What is compared; a step of each has the same samples.
class Search {
public:
  Search(const RecipeCase& machines, Allowed allowed, double ratio, const PlanCase& test)
      : machines_(machines), allowed_(allowed), ratio_(ratio), test_(test) {}

  /// The fastest first, and behind those what cannot be. One replica of as many stages as ranks is always among them.
  std::vector<Candidate> run() {
    for (int stages = 1; stages <= machines_.ranks; ++stages) {
      if (machines_.ranks % stages == 0 && machines_.micro_batches % (machines_.ranks / stages) == 0) add_shape(stages);
    }
    std::stable_sort(all_.begin(), all_.end(), [](const Candidate& a, const Candidate& b) {
      if (a.foreseen.feasible != b.foreseen.feasible) return a.foreseen.feasible;
      return a.foreseen.feasible && a.foreseen.step < b.foreseen.step;
    });
    return std::move(all_);
  }

private:
  void add_shape(int stages) {
    RecipeCase base = machines_;
    base.stages = stages;
    base.micro_batches = machines_.micro_batches / (machines_.ranks / stages);
    const auto add = [&](const std::string& recipe) {
      RecipeCase one = base;
      one.recipe = recipe;
      consider(one);
    };
    if (stages == 1) {
      for (const char* const recipe : {"ddp", "zero1"}) add(recipe);
      if (base.memory > 0) add("atom");
      if (allowed_.late && base.micro_batches % 2 == 0) add("acco");
      if (allowed_.late) add("dpu");
      if (allowed_.local && base.ranks > 1) add("diloco");
      if (allowed_.local && allowed_.lossy && base.ranks > 1) add("sparse");
      if (!allowed_.lossy || base.ranks == 1) return;
      base.compress["gradients"] = concat("ef+top-k:", ratio_);
      for (const char* const recipe : {"ddp", "zero1"}) add(recipe);
      return;
    }
    base.rank_at = placed(base, test_.seed);
    for (const char* const schedule : {"gpipe", "1f1b", "zb-h1"}) {
      base.pipeline = schedule;
      base.compress.clear();
      base.one_mask = base.adapt_ratios = false;
      add("dtfm");
      if (!allowed_.lossy) continue;
      base.compress["activations"] = base.compress["activation-gradients"] = "blockwise8";
      if (stages < base.ranks) base.compress["gradients"] = concat("ef+top-k:", ratio_);
      add("dtfm");
      base.compress["activations"] = concat("top-k:", ratio_);
      base.compress["activation-gradients"] = "dense";
      base.one_mask = base.adapt_ratios = true;
      add("dtfm");
    }
  }

  /// What no Trainer takes is an answer too.
  void consider(const RecipeCase& recipe) {
    Candidate candidate{recipe, {}};
    try {
      candidate.foreseen = foresee(recipe, test_.file);
    } catch (const OptionError& error) {
      candidate.foreseen.why = error.what();
    }
    all_.push_back(std::move(candidate));
  }

  const RecipeCase& machines_;
  Allowed allowed_;
  double ratio_;
  const PlanCase& test_;
  std::vector<Candidate> all_{};
};

/// The options of reef-train, by name.
io::Json options_of(const RecipeCase& one) {
  io::Json options{{"--recipe", one.recipe},
                   {"--model", concat(one.model.layers, "x", one.model.heads, "x", one.model.channels)},
                   {"--context", std::to_string(one.model.context)},
                   {"--batch", std::to_string(one.model.batch)}};
  const bool two_phases = one.recipe == "acco";
  options["--micro-batches"] = std::to_string(two_phases ? one.micro_batches / 2 : one.micro_batches);
  if (one.recipe == "dtfm") {
    options["--stages"] = std::to_string(one.stages);
    options["--pipeline"] = one.pipeline;
    std::string ranks;
    for (const int rank : one.rank_at) ranks += concat(ranks.empty() ? "" : ",", rank);
    if (!ranks.empty()) options["--place"] = ranks;
  }
  if (one.recipe == "atom") {
    options["--device-memory"] = std::to_string(one.memory);
    if (one.link > 0) options["--device-link"] = concat(one.link / 1e9);
  }
  io::Json channels = io::Json::array();
  for (const auto& [channel, codec] : one.compress) channels.push_back(concat(channel, "=", codec));
  if (!channels.empty()) options["--compress"] = std::move(channels);
  if (one.one_mask) options["--one-mask"] = true;
  if (one.adapt_ratios) {
    options["--adapt-ratios"] = true;
    options["--replan-ratios"] = "100";
  }
  return options;
}

std::string name_of(const RecipeCase& one) {
  std::string text = one.recipe;
  if (one.recipe == "dtfm") {
    text += concat(", ", one.ranks / one.stages, " x ", one.stages, " stages, ", one.pipeline, one.rank_at.empty() ? "" : ", placed");
  }
  for (const auto& [channel, codec] : one.compress) text += concat(", ", channel, " ", codec);
  return text + (one.adapt_ratios ? ", by link" : "");
}

io::Json json_of(const Candidate& one) {
  io::Json json{{"name", name_of(one.recipe)}, {"recipe", one.recipe.recipe}, {"stages", one.recipe.stages},
                {"replicas", one.recipe.ranks / one.recipe.stages}};
  if (!one.foreseen.feasible) {
    json["why"] = one.foreseen.why;
    return json;
  }
  json["step_s"] = one.foreseen.step;
  json["utilisation"] = one.foreseen.utilisation;
  json["wire_bytes"] = one.foreseen.wire;
  json["peak_device_bytes"] = one.foreseen.peak;
  return json;
}

/// What each choice of the best is worth: the same without it, or the best that has another.
io::Json bought(const std::vector<Candidate>& all, double ratio, const PlanCase& test) {
  const Candidate& best = all.front();
  io::Json list = io::Json::array();
  const auto tell = [&](const std::string& choice, const std::string& instead, Seconds step) {
    list.push_back({{"choice", choice}, {"instead", instead}, {"step_s", step}, {"factor", step / best.foreseen.step}});
  };
  const auto without = [&](const std::string& choice, const std::function<bool(const RecipeCase&)>& other) {
    for (const Candidate& one : all) {
      if (!one.foreseen.feasible || !other(one.recipe)) continue;
      return tell(choice, name_of(one.recipe), one.foreseen.step);
    }
  };
  if (!best.recipe.rank_at.empty()) {
    RecipeCase in_turn = best.recipe;
    in_turn.rank_at.clear();
    if (const Foreseen found = foresee(in_turn, test.file); found.feasible) tell("placement", name_of(in_turn), found.step);
  }
  without("recipe", [&](const RecipeCase& one) { return one.recipe != best.recipe.recipe; });
  without("stages", [&](const RecipeCase& one) { return one.stages != best.recipe.stages; });
  if (best.recipe.recipe == "dtfm") {
    without("schedule", [&](const RecipeCase& one) {
      return one.recipe == "dtfm" && one.stages == best.recipe.stages && one.compress == best.recipe.compress &&
             one.pipeline != best.recipe.pipeline;
    });
  }
  if (!best.recipe.compress.empty()) {
    without("codecs", [&](const RecipeCase& one) { return one.compress.empty() && one.recipe != "sparse"; });
  }
  if (best.recipe.adapt_ratios) {
    // The ratio by link is of bytes: of fp32 one in 1.5 times as many numbers is kept where a link is the slowest.
    RecipeCase uniform = best.recipe;
    uniform.adapt_ratios = false;
    uniform.compress["activations"] = concat("top-k:", 1.5 * ratio);
    if (const Foreseen found = foresee(uniform, test.file); found.feasible) tell("ratios by link", name_of(uniform), found.step);
  }
  return list;
}

io::Json plan_of(const PlanCase& test, const std::string& written) {
  const RecipeCase machines = read_case(test.json, test.file, CaseOf::plan);
  const auto ratio = io::value_or<double>(test.json, "ratio", 10, test.file);
  if (!(ratio >= 1 && ratio <= 1e6)) refuse(test.file, concat("ratio is ", ratio), "from 1 to 1e6");
  const std::vector<Candidate> all = Search(machines, allowed_by(test.json, test.file), ratio, test).run();
  io::Json candidates = io::Json::array();
  for (const Candidate& one : all) candidates.push_back(json_of(one));
  if (!all.front().foreseen.feasible) {
    return {{"feasible", false}, {"why", "no recipe fits"}, {"candidates", std::move(candidates)}};
  }
  io::Json answer{{"feasible", true},
                  {"best", json_of(all.front())},
                  {"options", options_of(all.front().recipe)},
                  {"bought", bought(all, ratio, test)},
                  {"candidates", std::move(candidates)}};
  write_output(written, [&] {
    const std::string text =
        concat(plan_begins, ",\n  \"ranks\": ", machines.ranks, ",\n  \"vocabulary\": ", machines.model.vocabulary,
               ",\n  \"step_s\": ", all.front().foreseen.step,
               ",\n  \"options\": ", answer["options"].dump(2), "\n}\n");
    io::write_atomically(written, text);
  });
  return answer;
}

}  // namespace

void add_plan(Commands& commands) {
  const auto written = std::make_shared<std::string>();
  CLI::App* const command = commands.add(
      "plan",
      "the recipe of reef-train with the shortest step on given machines, and what each of its choices buys.\n"
      "CASE: model, device, network as of simulate; micro_batches (of the whole job in a step: replicas share them); allow (a "
      "list of what may differ from synchronous training: late, gradients of earlier weights; local, ranks that step on their "
      "own; lossy, codecs), ratio (of top-k: 10)",
      "case.json --plan plan.json", [written](const PlanCase& test) { return plan_of(test, *written); });
  commands.add_output(command, "--plan", Output::plan, *written, "write the choice for reef-train --plan to this file");
}

}  // namespace reef_examples
