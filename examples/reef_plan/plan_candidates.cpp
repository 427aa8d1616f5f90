#include "plan_candidates.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/profile/network.hpp>

#include "recipe_model.hpp"

namespace reef_examples {

using namespace reef;

namespace {

constexpr std::array<const char*, 3> schedules{"gpipe", "1f1b", "zb-h1"};

/// Micro-batches of a replica in a step of as many samples as may be.
std::int64_t most_micro_batches(const RecipeCase& one, const PlanProblem& problem) {
  const std::int64_t of_phase = problem.max_samples / (one.model.batch * one.replicas() * phases_of(one.recipe));
  return std::min<std::int64_t>(of_phase, 65536) * phases_of(one.recipe);
}

/// Bytes of a micro-batch between stages, cut where the fewest cross, and of the gradients of all weights.
std::pair<double, double> messages_of(const RecipeCase& asked) {
  const auto& model = asked.model;
  // Twelve times the square of the channels is what a layer of a GPT has.
  if (!asked.has_graph()) {
    return {4.0 * static_cast<double>(model.batch * model.context * model.channels),
            4.0 * 12 * static_cast<double>(model.channels * model.channels * model.layers)};
  }
  const graph::Graph<device::Host, float> graph = build_model(asked);
  std::vector<Bytes> crossing = graph::crossing_bytes(graph.dag());
  std::erase(crossing, Bytes{0});
  double gradients = 0;
  for (const graph::Parameter& parameter : graph.dag().parameters) gradients += static_cast<double>(parameter.spec.bytes());
  return {crossing.empty() ? 0 : static_cast<double>(*std::min_element(crossing.begin(), crossing.end())), gradients};
}

/// Ranks by replica and stage, so that those who talk much have good links, of which none is better than its ends; nothing
/// where all are alike.
std::vector<int> placed(const RecipeCase& asked, std::uint64_t seed) {
  plan::AllocationProblem problem;
  problem.network = asked.links();
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
  const auto [activation, gradient] = messages_of(asked);
  problem.activation_bytes = asked.micro_batches * activation;
  problem.gradient_bytes = gradient / asked.stages;
  std::vector<int> ranks;
  for (const auto& pipeline : plan::allocate(problem, {.seed = seed, .effort = 4}).sigma) {
    ranks.insert(ranks.end(), pipeline.begin(), pipeline.end());
  }
  return ranks;
}

/// The recipes over so many stages that are looked at first.
class Shape {
public:
  Shape(const PlanProblem& problem, int stages) : problem_(problem), base_(problem.machines) {
    base_.stages = stages;
    base_.micro_batches = base_.micro_batches / (base_.ranks / stages);
    if (stages > 1) base_.rank_at = placed(base_, problem.seed);
  }

  std::vector<RecipeCase> recipes() && {
    const Allowed& allowed = problem_.allowed;
    if (base_.stages > 1) {
      for (const char* const schedule : {"gpipe", "1f1b"}) {
        base_.pipeline = schedule;
        add("dtfm");
        if (!allowed.lossy) continue;
        add_encoded("dtfm", {{"activations", "blockwise8"}, {"activation-gradients", "blockwise8"}});
        add_by_link("fusion");
      }
    } else {
      for (const char* const recipe : {"ddp", "zero1"}) add(recipe);
      if (base_.memory > 0) add("atom");
      if (allowed.late && base_.micro_batches % 2 == 0) add("acco");
      if (allowed.late) add("dpu");
      if (allowed.local && base_.ranks > 1) add("diloco");
      if (allowed.local && allowed.lossy && base_.ranks > 1) add("sparse");
      if (allowed.lossy && base_.ranks > 1) {
        for (const char* const recipe : {"ddp", "zero1"}) add_encoded(recipe);
      }
    }
    // Of devices without a limit nothing says what swapping takes.
    if (allowed.late && (base_.memory > 0 || base_.link > 0) && base_.micro_batches % 2 == 0) {
      base_.pipeline = "1f1b";
      add("reef", {{"activations", "none"}});
      if (allowed.lossy && base_.stages > 1) add_by_link("reef");
    }
    return std::move(all_);
  }

private:
  using Codecs = std::map<std::string, std::string>;

  void add(const char* recipe, Codecs codecs = {}) {
    RecipeCase one = base_;
    one.recipe = recipe;
    one.compress = std::move(codecs);
    all_.push_back(std::move(one));
  }

  /// Gradients have a codec too, where replicas sum them.
  void add_encoded(const char* recipe, Codecs codecs = {}) {
    if (base_.stages < base_.ranks) codecs["gradients"] = concat("ef+top-k:", problem_.ratio);
    add(recipe, std::move(codecs));
  }

  /// AdaTopK of activations, and their gradients by the same mask.
  void add_by_link(const char* recipe) {
    add_encoded(recipe, {{"activations", concat("top-k:", problem_.ratio)}, {"activation-gradients", "dense"}});
    all_.back().one_mask = all_.back().adapt_ratios = true;
  }

  const PlanProblem& problem_;
  RecipeCase base_;
  std::vector<RecipeCase> all_{};
};

}  // namespace

std::vector<RecipeCase> recipes_of_stages(const PlanProblem& problem, int stages) { return Shape(problem, stages).recipes(); }

std::optional<RecipeCase> adaptive(RecipeCase one, const PlanProblem& problem) {
  if (!problem.allowed.adaptive || !can_adapt(one.recipe) || one.replicas() == 1) return {};
  one.adapts = true;
  one.most = 0;
  if (problem.max_samples == 0) return one;
  const std::int64_t most = most_micro_batches(one, problem);
  // Stages take as many again.
  if (most < one.micro_batches + (one.stages > 1 ? one.micro_batches : phases_of(one.recipe))) return {};
  one.most = static_cast<int>(most / phases_of(one.recipe));
  return one;
}

std::vector<RecipeCase> neighbours_of(const RecipeCase& one, const PlanProblem& problem) {
  std::vector<RecipeCase> all;
  const auto add = [&](const auto& change) {
    RecipeCase other = one;
    change(other);
    if (other.is_too_large()) return;
    if (!other.adapts) {
      all.push_back(std::move(other));
    } else if (auto bounded = adaptive(std::move(other), problem)) {
      all.push_back(*std::move(bounded));
    }
  };
  const int phases = phases_of(one.recipe);
  add([](RecipeCase& other) { other.adapts = !other.adapts && can_adapt(other.recipe); });
  if (const std::int64_t most = most_micro_batches(one, problem); most > one.micro_batches) {
    for (const std::int64_t more : {std::int64_t{2} * one.micro_batches, most}) {
      if (more <= most) add([more](RecipeCase& other) { other.micro_batches = static_cast<int>(more); });
    }
  }
  if (one.micro_batches % (2 * phases) == 0 && !one.has_graph()) {
    add([](RecipeCase& other) {
      other.model.batch *= 2;
      other.micro_batches /= 2;
    });
  }
  if (one.model.batch % 2 == 0 && !one.has_graph()) {
    add([](RecipeCase& other) {
      other.model.batch /= 2;
      other.micro_batches *= 2;
    });
  }
  if (one.stages > 1) {
    for (const char* const schedule : schedules) {
      if (one.pipeline != schedule) add([&](RecipeCase& other) { other.pipeline = schedule; });
    }
    // op-fence takes all of a stage to be in its device.
    if (!is_swapped(one.recipe)) add([](RecipeCase& other) { other.layout = other.layout == "balanced" ? "op-fence" : "balanced"; });
  }
  if (one.recipe == "reef") {
    const int units = one.micro_batches / phases;
    if (one.unit > 0 && 2 * one.unit < units) add([](RecipeCase& other) { other.unit *= 2; });
    if (one.unit > 1) add([](RecipeCase& other) { other.unit /= 2; });
    if (one.unit > 0 && units > 1) add([](RecipeCase& other) { other.unit = 0; });
  }
  return all;
}

RecipeCase with_codecs_of(RecipeCase one, const RecipeCase& other) {
  one.compress = other.compress;
  one.one_mask = other.one_mask;
  one.adapt_ratios = other.adapt_ratios;
  return one;
}

}  // namespace reef_examples
