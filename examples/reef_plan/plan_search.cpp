#include "plan_search.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/detail/in_parallel.hpp>
#include <reef/profile/network.hpp>

#include "recipe_model.hpp"

namespace reef_examples {

namespace {

using namespace reef;

constexpr std::array<const char*, 3> schedules{"gpipe", "1f1b", "zb-h1"};

/// As many at a time as there are cores.
template <class Function>
void on_all_cores(std::size_t count, const Function& function) {
  plan::detail::in_parallel(plan::detail::threads_of(0), static_cast<int>(count),
                            [&](int i) { function(static_cast<std::size_t>(i)); });
}

/// Micro-batches of a replica in a step of as many samples as may be.
std::int64_t most_micro_batches(const RecipeCase& one, const PlanProblem& problem) {
  const std::int64_t of_phase = problem.max_samples / (one.model.batch * one.replicas() * phases_of(one.recipe));
  return std::min<std::int64_t>(of_phase, 65536) * phases_of(one.recipe);
}

/// The same, but that its phases take as many micro-batches as there is time for; nothing where a bound leaves none, or
/// nothing is sent meanwhile.
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

/// What differs of two candidates.
auto key_of(const RecipeCase& one) {
  return std::tuple(one.recipe, one.stages, one.model.batch, one.micro_batches, one.pipeline, one.layout, one.unit, one.rank_at,
                    one.compress, one.adapt_ratios, one.accumulate());
}

/// As many samples as are asked for, or may be, by one change.
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

/// How far a recipe is from synchronous training, by the gravest of what differs: ranks that step on their own, gradients of
/// earlier weights, codecs.
auto difference_of(const RecipeCase& one) {
  const bool local = one.recipe == "diloco" || one.recipe == "sparse";
  const bool late = can_adapt(one.recipe);
  const bool lossy = one.recipe == "sparse" || std::any_of(one.compress.begin(), one.compress.end(), [](const auto& of) {
                       return of.second != "none" && of.second != "dense";
                     });
  return std::tuple(local, late, lossy);
}

/// What one gains a thousandth of over the other.
bool is_faster(const Candidate& a, const Candidate& b) { return a.per_sample() < 0.999 * b.per_sample(); }

/// Of what cannot be, what needs the least memory; what swaps says itself that it found no way.
bool is_nearer(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& one) {
    const bool says_memory = one.foreseen.peak > 0;
    const std::int64_t lacks = says_memory ? static_cast<std::int64_t>(one.foreseen.peak) : one.recipe.model.batch;
    return std::tuple(one.foreseen.is_endless, says_memory ? 1 : is_swapped(one.recipe.recipe) ? 0 : 2, lacks, one.recipe.adapts);
  };
  return key(a) < key(b);
}

bool is_better(const Candidate& a, const Candidate& b) {
  if (a.foreseen.feasible != b.foreseen.feasible) return a.foreseen.feasible;
  return a.foreseen.feasible ? is_faster(a, b) : is_nearer(a, b);
}

/// What takes the most samples a second is first, and what cannot be last. Of those that the best is less than a thousandth faster
/// than, what differs least from synchronous training is first, then what compensates for late gradients, then what has the
/// fewest samples a step, then fixed counts; and so of the best of the rest.
void put_in_order(std::vector<Candidate>& all) {
  const auto feasible = std::stable_partition(all.begin(), all.end(), [](const Candidate& one) { return one.foreseen.feasible; });
  std::stable_sort(feasible, all.end(), is_nearer);
  std::stable_sort(all.begin(), feasible, [](const Candidate& a, const Candidate& b) { return a.per_sample() < b.per_sample(); });
  const auto key = [](const Candidate& one) {
    return std::tuple(difference_of(one.recipe), one.recipe.recipe == "dpu", one.samples(), one.recipe.adapts, one.per_sample());
  };
  for (auto best = all.begin(); best != feasible;) {
    const auto end = std::find_if(best, feasible, [&](const Candidate& one) { return is_faster(*best, one); });
    std::stable_sort(best, end, [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    best = end;
  }
}

class Search {
public:
  explicit Search(PlanProblem problem) : problem_(std::move(problem)) {}

  Searched run() && {
    consider(first_recipes());
    while (!is_late() && !all_.front().foreseen.feasible && problem_.machines.model.batch % 2 == 0 && !problem_.machines.has_graph()) {
      problem_.machines.model.batch /= 2;
      problem_.machines.micro_batches *= 2;
      consider(first_recipes());
    }
    consider(adaptive_ones());
    for (Candidate& one : best_of_three_recipes()) improve(std::move(one));
    return {std::move(all_), left_out_};
  }

private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  [[nodiscard]] bool is_late() const { return problem_.budget > 0 && elapsed() >= problem_.budget; }

  /// Says what is under way: each that takes seconds, of others at most one a second.
  void tell(const RecipeCase& begun, std::size_t done, std::size_t all) {
    const bool plans = is_swapped(begun.recipe) && begun.memory > 0;
    if (!problem_.progress || (!plans && elapsed() < told_ + 1)) return;
    told_ = elapsed();
    problem_.progress(concat(done, " of ", all, " recipes simulated; now ", begun.recipe, ", ", begun.stages,
                             begun.stages == 1 ? " stage" : " stages", plans ? ", whose swapping is planned" : ""));
  }

  /// Of every number of stages.
  [[nodiscard]] std::vector<RecipeCase> first_recipes() const {
    std::vector<int> shapes;
    const RecipeCase& machines = problem_.machines;
    for (int stages = 1; stages <= machines.ranks; ++stages) {
      if (machines.ranks % stages == 0 && machines.micro_batches % (machines.ranks / stages) == 0) shapes.push_back(stages);
    }
    std::vector<std::vector<RecipeCase>> by_shape(shapes.size());
    on_all_cores(shapes.size(), [&](std::size_t i) { by_shape[i] = Shape(problem_, shapes[i]).recipes(); });
    std::vector<RecipeCase> recipes;
    for (auto& of_shape : by_shape) std::move(of_shape.begin(), of_shape.end(), std::back_inserter(recipes));
    return recipes;
  }

  /// Of what fits with fixed counts.
  [[nodiscard]] std::vector<RecipeCase> adaptive_ones() const {
    std::vector<RecipeCase> recipes;
    for (const Candidate& one : all_) {
      if (!one.foreseen.feasible) continue;
      if (auto adapts = adaptive(one.recipe, problem_)) recipes.push_back(*std::move(adapts));
    }
    return recipes;
  }

  [[nodiscard]] std::vector<Candidate> best_of_three_recipes() const {
    std::vector<Candidate> best;
    for (const Candidate& one : all_) {
      const bool is_new = std::none_of(best.begin(), best.end(), [&](const Candidate& other) {
        return other.recipe.recipe == one.recipe.recipe;
      });
      if (is_new && best.size() < 3) best.push_back(one);
    }
    return best;
  }

  /// Simulates those that are new.
  void consider(std::vector<RecipeCase> recipes) {
    std::erase_if(recipes, [this](const RecipeCase& one) { return !seen_.insert(key_of(one)).second; });
    // Those that swap last: they take longest.
    std::vector<std::size_t> order(recipes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_partition(order.begin(), order.end(), [&](std::size_t i) { return !is_swapped(recipes[i].recipe); });
    std::vector<std::optional<Candidate>> found(recipes.size());
    std::mutex one_at_a_time;
    std::size_t done = 0;
    on_all_cores(recipes.size(), [&](std::size_t next) {
      const std::size_t i = order[next];
      const bool is_first = all_.empty() && next == 0;
      if (is_late() && !is_first) return;
      {
        const std::scoped_lock lock(one_at_a_time);
        tell(recipes[i], done, recipes.size());
      }
      found[i] = foreseen_of(recipes[i], problem_.file);
      const std::scoped_lock lock(one_at_a_time);
      ++done;
    });
    for (std::optional<Candidate>& one : found) {
      if (one) all_.push_back(*std::move(one));
    }
    left_out_ += recipes.size() - done;
    put_in_order(all_);
  }

  /// One change at a time, the best of all, as long as it is worth a thousandth.
  void improve(Candidate one) {
    constexpr int max_changes = 8;
    for (int changes = 0; changes < max_changes && !is_late(); ++changes) {
      std::vector<RecipeCase> neighbours = neighbours_of(one.recipe, problem_);
      for (const Candidate& other : all_) {
        if (other.recipe.recipe != one.recipe.recipe || other.recipe.stages != one.recipe.stages) continue;
        neighbours.push_back(with_codecs_of(one.recipe, other.recipe));
      }
      std::set<Key> of_one;
      for (const RecipeCase& other : neighbours) of_one.insert(key_of(other));
      consider(std::move(neighbours));
      const auto better = std::find_if(all_.begin(), all_.end(),
                                       [&](const Candidate& other) { return of_one.contains(key_of(other.recipe)); });
      if (better == all_.end() || !is_better(*better, one)) return;
      one = *better;
    }
  }

  using Key = decltype(key_of(std::declval<RecipeCase>()));

  PlanProblem problem_;
  std::vector<Candidate> all_{};
  std::set<Key> seen_{};
  std::size_t left_out_ = 0;  ///< for want of time
  Clock::time_point begin_ = Clock::now();
  double told_ = 0;  ///< seconds after that
};

}  // namespace

Candidate foreseen_of(const RecipeCase& recipe, const std::string& file) {
  Candidate candidate{recipe, {}};
  try {
    candidate.foreseen = foresee(recipe, file);
  } catch (const OptionError& error) {
    candidate.foreseen.why = error.what();
  }
  if (candidate.foreseen.is_endless) candidate.foreseen.why += "; fix: most_micro_batches, or fewer";
  return candidate;
}

Searched search(const PlanProblem& problem) { return Search(problem).run(); }

}  // namespace reef_examples
