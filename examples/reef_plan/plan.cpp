// The recipe of reef-train that takes most samples a second on machines that are described: all that may be are simulated.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>

#include "commands.hpp"
#include "plan_search.hpp"
#include "recipe_case.hpp"

namespace reef_examples {

namespace {

using namespace reef;

Allowed allowed_by(const io::Json& test, const std::string& file) {
  Allowed allowed;
  for (const std::string& what : io::value_or<std::vector<std::string>>(test, "allow", {}, file)) {
    if (what == "late") {
      allowed.late = true;
    } else if (what == "local") {
      allowed.local = true;
    } else if (what == "lossy") {
      allowed.lossy = true;
    } else if (what == "adaptive") {
      allowed.adaptive = true;
    } else {
      refuse(file, "allow has " + in_quotes(what), "late, local, lossy, adaptive");
    }
  }
  if (allowed.adaptive && !allowed.late) {
    refuse(file, "allow has 'adaptive' without 'late', and recipes that adapt take gradients of earlier weights", "both, or neither");
  }
  return allowed;
}

/// The samples that a step may have; 0 where a case does not say it.
std::int64_t max_samples_of(const io::Json& test, const RecipeCase& machines, const std::string& file) {
  if (!test.contains("most_micro_batches")) return 0;
  const int most = io::require<int>(test, "most_micro_batches", file);
  if (most < machines.micro_batches || most > 65536) {
    refuse(file, concat("most_micro_batches is ", most), concat("from micro_batches, ", machines.micro_batches, ", to 65536"));
  }
  return most * machines.model.batch;
}

/// The options of reef-train, by name.
io::Json options_of(const RecipeCase& one) {
  io::Json options{{"--recipe", one.recipe}};
  if (one.has_graph()) {
    options["--graph"] = std::filesystem::absolute(one.graph_file).lexically_normal().string();
  } else {
    options["--model"] = concat(one.model.layers, "x", one.model.heads, "x", one.model.channels);
    options["--context"] = std::to_string(one.model.context);
    options["--batch"] = std::to_string(one.model.batch);
  }
  options["--micro-batches"] = std::to_string(one.micro_batches / phases_of(one.recipe));
  if (can_adapt(one.recipe)) options["--accumulate"] = one.accumulate();
  if (is_spread(one.recipe)) {
    options["--stages"] = std::to_string(one.stages);
    options["--pipeline"] = one.pipeline;
    options["--layout"] = one.layout;
    if (one.unit != 1) options["--unit"] = std::to_string(one.unit);
    std::string ranks;
    for (const int rank : one.rank_at) ranks += concat(ranks.empty() ? "" : ",", rank);
    if (!ranks.empty()) options["--place"] = ranks;
  }
  if (is_swapped(one.recipe)) {
    if (one.memory > 0) options["--device-memory"] = std::to_string(one.memory);
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
  if (is_spread(one.recipe)) {
    text += concat(", ", one.ranks / one.stages, " x ", one.stages, " stages, ", one.pipeline, one.rank_at.empty() ? "" : ", placed");
    if (one.layout != "balanced") text += ", " + one.layout;
    if (one.unit != 1) text += one.unit == 0 ? std::string(", all as one unit") : concat(", units of ", one.unit);
  }
  for (const auto& [channel, codec] : one.compress) {
    if (codec != "none") text += concat(", ", channel, " ", codec);
  }
  if (one.adapt_ratios) text += ", by link";
  text += concat(", ", one.micro_batches, one.micro_batches == 1 ? " micro-batch of " : " micro-batches of ", one.model.batch);
  if (one.adapts) text += one.most == 0 ? std::string(" or more") : concat(" or more, up to ", one.most, " a phase");
  return text;
}

io::Json json_of(const Candidate& one) {
  io::Json json{{"name", name_of(one.recipe)},
                {"recipe", one.recipe.recipe},
                {"stages", one.recipe.stages},
                {"replicas", one.recipe.ranks / one.recipe.stages},
                {"micro_batches", one.recipe.micro_batches},
                {"batch", one.recipe.model.batch},
                {"accumulate", one.recipe.accumulate()}};
  if (!one.foreseen.feasible) {
    json["why"] = one.foreseen.why;
    return json;
  }
  json["step_s"] = one.foreseen.step;
  json["samples"] = one.samples();
  json["samples_per_s"] = 1 / one.per_sample();
  json["utilisation"] = one.foreseen.utilisation;
  json["wire_bytes"] = one.foreseen.wire;
  json["peak_device_bytes"] = one.foreseen.peak;
  return json;
}

/// What each choice of the best is worth: the best that has another, or the same without it, or why that cannot be. A factor is
/// of samples a second.
io::Json bought(const std::vector<Candidate>& all, const PlanProblem& problem) {
  const RecipeCase& best = all.front().recipe;
  io::Json list = io::Json::array();
  const auto tell = [&](const std::string& choice, const Candidate& other) {
    list.push_back({{"choice", choice},
                    {"instead", name_of(other.recipe)},
                    {"step_s", other.foreseen.step},
                    {"samples_per_s", 1 / other.per_sample()},
                    {"factor", other.per_sample() / all.front().per_sample()}});
  };
  const auto among = [&](const std::string& choice, const auto& is_other) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Candidate& one) {
      return one.foreseen.feasible && is_other(one.recipe);
    });
    if (found != all.end()) tell(choice, *found);
  };
  const auto changed = [&](const std::string& choice, const auto& change) {
    RecipeCase other = best;
    change(other);
    const auto cannot = [&](const std::string& why) {
      list.push_back({{"choice", choice}, {"instead", name_of(other)}, {"why", why}});
    };
    if (other.is_too_large()) return cannot("too many micro-batches to be simulated");
    const Candidate found = foreseen_of(other, problem.file);
    if (!found.foreseen.feasible) return cannot(found.foreseen.why);
    tell(choice, found);
  };
  const auto of_kind = [&](const RecipeCase& one) {
    return one.recipe == best.recipe && one.stages == best.stages && one.compress == best.compress && one.adapts == best.adapts;
  };
  if (!best.rank_at.empty()) changed("placement", [](RecipeCase& one) { one.rank_at.clear(); });
  among("recipe", [&](const RecipeCase& one) { return one.recipe != best.recipe; });
  among("stages", [&](const RecipeCase& one) { return one.stages != best.stages; });
  if (best.stages > 1) {
    among("schedule", [&](const RecipeCase& one) { return of_kind(one) && one.pipeline != best.pipeline; });
    among("layout", [&](const RecipeCase& one) { return of_kind(one) && one.layout != best.layout; });
  }
  among("accumulation", [&](const RecipeCase& one) { return of_kind(one) && one.model.batch != best.model.batch; });
  if (best.adapts) {
    among("adaptive counts", [&](const RecipeCase& one) {
      return one.recipe == best.recipe && one.stages == best.stages && one.compress == best.compress && !one.adapts &&
             one.micro_batches * one.model.batch == best.micro_batches * best.model.batch;
    });
    // Of the difference this is what larger steps do not make.
    changed("adaptive counts, not as many fixed ones", [&](RecipeCase& one) {
      const auto each = static_cast<int>(all.front().foreseen.micro_batches / best.replicas());
      one.adapts = false;
      one.micro_batches = each - each % phases_of(best.recipe);
    });
  } else {
    among("fixed counts", [&](const RecipeCase& one) { return one.recipe == best.recipe && one.stages == best.stages && one.adapts; });
  }
  if (best.micro_batches * best.replicas() * best.model.batch > problem.machines.micro_batches * problem.machines.model.batch) {
    among("larger steps", [&](const RecipeCase& one) {
      return of_kind(one) && one.micro_batches * one.model.batch < best.micro_batches * best.model.batch;
    });
  }
  if (is_swapped(best.recipe)) {
    among("unit", [&](const RecipeCase& one) { return of_kind(one) && one.unit != best.unit; });
    among("swapping", [&](const RecipeCase& one) { return !is_swapped(one.recipe); });
  }
  const bool encodes = std::any_of(best.compress.begin(), best.compress.end(), [](const auto& of) { return of.second != "none"; });
  if (encodes) {
    among("codecs", [&](const RecipeCase& one) {
      return one.recipe != "sparse" && std::all_of(one.compress.begin(), one.compress.end(),
                                                   [](const auto& of) { return of.second == "none"; });
    });
  }
  if (best.adapt_ratios) {
    // The ratio by link is of bytes: of fp32 one in 1.5 times as many numbers is kept where a link is the slowest.
    changed("ratios by link", [&](RecipeCase& one) {
      one.adapt_ratios = false;
      one.compress["activations"] = concat("top-k:", 1.5 * problem.ratio);
    });
  }
  return list;
}

/// What somebody who reads the candidates would miss.
io::Json notes_of(const Searched& searched, const PlanProblem& problem) {
  io::Json notes = io::Json::array();
  const std::vector<Candidate>& all = searched.candidates;
  const auto any = [&](const auto& is) { return std::any_of(all.begin(), all.end(), is); };
  const bool adapts = any([](const Candidate& one) { return one.recipe.adapts; });
  const bool could = any([](const Candidate& one) { return one.foreseen.feasible && can_adapt(one.recipe.recipe) && one.recipe.replicas() > 1; });
  if (problem.allowed.adaptive && could && !adapts && searched.left_out == 0) {
    notes.push_back(concat("nothing adapts: a step of most_micro_batches, ", problem.max_samples / problem.machines.model.batch,
                           ", has no room for a further one of each replica"));
  }
  for (const Candidate& one : all) {
    if (one.foreseen.is_endless) notes.push_back(concat("left out: ", name_of(one.recipe), ": ", one.foreseen.why));
  }
  return notes;
}

io::Json plan_of(const PlanCase& test, const std::string& written) {
  PlanProblem problem{.machines = read_case(test.json, test.file, CaseOf::plan),
                      .allowed = allowed_by(test.json, test.file),
                      .ratio = io::value_or<double>(test.json, "ratio", 10, test.file),
                      .file = test.file,
                      .seed = test.seed,
                      .budget = test.budget};
  problem.max_samples = max_samples_of(test.json, problem.machines, test.file);
  problem.progress = [](const std::string& line) { std::fprintf(stderr, "reef-plan: %s\n", line.c_str()); };
  const RecipeCase& machines = problem.machines;
  if (!(problem.ratio >= 1 && problem.ratio <= 1e6)) refuse(test.file, concat("ratio is ", problem.ratio), "from 1 to 1e6");
  const Searched searched = search(problem);
  const std::vector<Candidate>& all = searched.candidates;
  io::Json candidates = io::Json::array();
  for (const Candidate& one : all) candidates.push_back(json_of(one));
  if (!all.front().foreseen.feasible) {
    if (!written.empty()) std::fprintf(stderr, "reef-plan: no recipe fits, so %s is as it was\n", written.c_str());
    const char* const none = searched.left_out > 0 ? "of the recipes that the budget had time for none fits" : "no recipe fits";
    io::Json answer{{"feasible", false},
                    {"why", concat(none, "; the nearest is ", name_of(all.front().recipe), ": ", all.front().foreseen.why)},
                    {"candidates", std::move(candidates)}};
    if (searched.left_out > 0) answer["left_out"] = searched.left_out;
    return answer;
  }
  io::Json answer{{"feasible", true},
                  {"best", json_of(all.front())},
                  {"options", options_of(all.front().recipe)},
                  {"bought", bought(all, problem)},
                  {"candidates", std::move(candidates)}};
  if (searched.left_out > 0) answer["left_out"] = searched.left_out;
  if (io::Json notes = notes_of(searched, problem); !notes.empty()) answer["notes"] = std::move(notes);
  write_output(written, [&] {
    const std::string text =
        concat(plan_begins, ",\n  \"ranks\": ", machines.ranks, ",\n  \"vocabulary\": ", machines.model.vocabulary,
               ",\n  \"step_s\": ", all.front().foreseen.step, ",\n  \"samples\": ", all.front().samples(),
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
      "the recipe of reef-train that takes most samples a second on given machines, and what each of its choices buys.\n"
      "It chooses replicas and stages, which rank has which, layout, schedule, codecs, whether a model is swapped and for how many "
      "micro-batches at once, accumulation, and of how many samples a micro-batch of a GPT is: those of a step stay the same, unless the "
      "case allows more.\n"
      "CASE: model or graph, device, network as of simulate; micro_batches (of the whole job in a step: replicas share them); "
      "most_micro_batches (a step may have up to so many, of micro_batches' samples); allow (a "
      "list of what may differ from synchronous training: late, gradients of earlier weights; local, ranks that step on their "
      "own; lossy, codecs; adaptive, with late: further micro-batches for as long as a phase communicates, up to "
      "most_micro_batches in a step where that is given, so that runs differ by the clock), ratio (of top-k: 10). "
      "With --budget the answer says how many recipes that left out",
      "case.json --plan plan.json", [written](const PlanCase& test) { return plan_of(test, *written); });
  commands.add_output(command, "--plan", Output::plan, *written, "write the choice for reef-train --plan to this file");
}

}  // namespace reef_examples
