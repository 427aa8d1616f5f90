#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_json.hpp>
#include <reef/plan/genetic_allocation.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"

namespace reef_examples {

namespace {

struct AllocateOptions {
  reef::plan::AllocationOptions search;
  std::string shape = "given";
  std::string links = "averaged";
  std::string method = "reef";
};

reef::plan::Allocation search(const reef::plan::AllocationProblem& problem, const PlanCase& test,
                              const AllocateOptions& options) {
  using namespace reef;
  if (options.method == "reef") {
    plan::AllocationOptions wanted = options.search;
    wanted.seed = test.seed;
    wanted.budget = test.budget;
    wanted.any_shape = options.shape == "any";
    return plan::allocate(problem, wanted);
  }
  if (options.shape == "any" || test.budget > 0 || options.search.effort >= 0) {
    throw OptionError("reef-plan allocate: --method ", options.method,
                      " has no --shape any, --budget or --effort.\n  fix: leave them out.");
  }
  plan::GeneticOptions wanted;
  wanted.seed = test.seed;
  wanted.gain =
      options.method == "genetic" ? plan::GeneticGain::published : plan::GeneticGain::kernighan_lin;
  return plan::genetic_allocation(problem, wanted);
}

reef::io::Json allocate(const PlanCase& test, const AllocateOptions& options) {
  using namespace reef;
  plan::AllocationProblem problem = plan::allocation_from_json(test.json, test.file);
  problem.directed = options.links == "directed";
  const plan::Allocation found = search(problem, test, options);
  io::Json answer{{"feasible", found.feasible}};
  if (!found.feasible) {
    answer["why"] = found.why;
    return answer;
  }
  answer["D_PP"] = found.stages;
  answer["D_DP"] = found.pipelines;
  answer["total_s"] = found.cost.total();
  answer["datap_s"] = found.cost.datap;
  answer["pipelinep_s"] = found.cost.pipelinep;
  if (problem.stage_flops > 0) answer["compute_s"] = found.cost.compute;
  answer["sigma"] = found.sigma;
  answer["lower_bound_s"] = found.lower_bound;
  answer["optimal"] = found.optimal;
  answer["effort"] = found.effort;
  return answer;
}

}  // namespace

void add_allocate(Commands& commands) {
  const auto options = std::make_shared<AllocateOptions>();
  CLI::App* const command =
      commands.add("allocate",
                   "where to put the stages of pipelines on uneven devices (DT-FM).\n"
                   "CASE: D_PP (stages), D_DP (pipelines), c_pp_bytes, c_dp_bytes, latency_ms and "
                   "bandwidth_gbps "
                   "(Gbit/s; square matrices), devices (names or how many; may be left out), speed "
                   "(FLOP/s of each "
                   "device) with stage_flops, cap (bytes of each device) with stage_bytes (both "
                   "may be left out)",
                   "case.json --budget 10",
                   [options](const PlanCase& test) { return allocate(test, *options); });
  command
      ->add_option(
          "--effort", options->search.effort,
          "rounds of the search, which with the seed decide the answer (default: 20, or as many "
          "as the budget has time for; it stops earlier with a proof)")
      ->transform(number_from<int>(0, std::numeric_limits<int>::max()));
  command
      ->add_option("--threads", options->search.threads,
                   "to search with; they change no answer (default: all cores)")
      ->transform(number_from<int>(1, 1024));
  command->add_option("--shape", options->shape, "D_PP x D_DP as given, or any")
      ->check(CLI::IsMember(std::vector<std::string>{"given", "any"}))
      ->capture_default_str();
  command
      ->add_option("--links", options->links,
                   "each link the mean of its directions, or each direction as it is used")
      ->check(CLI::IsMember(std::vector<std::string>{"averaged", "directed"}))
      ->capture_default_str();
  command
      ->add_option(
          "--method", options->method,
          "ours, or a baseline: the published genetic search, and that with Kernighan-Lin's gain")
      ->check(CLI::IsMember(std::vector<std::string>{"reef", "genetic", "kernighan-lin"}))
      ->capture_default_str();
}

}  // namespace reef_examples
