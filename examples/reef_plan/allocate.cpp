#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_json.hpp>
#include <reef/plan/genetic_allocation.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"
#include "plot.hpp"

namespace reef_examples {

namespace {

using namespace reef;

struct AllocateOptions {
  plan::AllocationOptions search;
  std::string shape = "given";
  std::string links = "averaged";
  std::string method = "reef";
  std::string plot;
};

/// Pipelines are lines, and a device's number is its stage.
NetworkPlot drawn(const plan::AllocationProblem& problem, const plan::Allocation& found,
                  const PlanCase& test) {
  const std::string what =
      found.feasible
          ? concat(found.pipelines, found.pipelines == 1 ? " pipeline" : " pipelines", " of ",
                   found.stages, found.stages == 1 ? " stage" : " stages", " on the devices")
          : "The devices";
  NetworkPlot plot =
      plot_of(test, what, problem.directed ? problem.network : problem.network.averaged());
  frame_clusters(plot);
  if (!found.feasible) {
    plot.facts = {{"no plan", found.why}};
    return plot;
  }
  plot.paths = found.sigma;
  plot.groups.resize(static_cast<std::size_t>(found.stages));
  for (const std::vector<int>& pipeline : found.sigma) {
    for (std::size_t stage = 0; stage < pipeline.size(); ++stage)
      plot.groups[stage].push_back(pipeline[stage]);
  }
  plot.facts = {{"an iteration", plot_seconds(found.cost.total())},
                {"its gradients, by stage", plot_seconds(found.cost.datap)},
                {"its activations, along the pipelines", plot_seconds(found.cost.pipelinep)}};
  if (problem.stage_flops > 0)
    plot.facts.emplace_back("its slowest device", plot_seconds(found.cost.compute));
  plot.facts.emplace_back("no placement takes less than", plot_seconds(found.lower_bound));
  return plot;
}

plan::Allocation search(const plan::AllocationProblem& problem, const PlanCase& test,
                        const AllocateOptions& options) {
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

io::Json allocate(const PlanCase& test, const AllocateOptions& options) {
  plan::AllocationProblem problem = plan::allocation_from_json(test.json, test.file);
  problem.directed = options.links == "directed";
  const plan::Allocation found = search(problem, test, options);
  if (!options.plot.empty()) write_plot(options.plot, drawn(problem, found, test));
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
                   "device; or device_flops, as reef-measure writes it) with stage_flops, cap "
                   "(bytes of each device) with stage_bytes (both "
                   "may be left out)",
                   "case.json --budget 10 --plot plan.svg",
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
  command
      ->add_option("--shape", options->shape,
                   "D_PP x D_DP as given, or any (with stage_flops of at most 512 devices)")
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
  add_plot(commands, command, options->plot);
}

}  // namespace reef_examples
