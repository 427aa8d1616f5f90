#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/pipeline_time.hpp>

#include "commands.hpp"

namespace reef_examples {

namespace {

/// A pipeline of which it is known how long each stage computes and receives.
reef::io::Json estimate(const PlanCase& test) {
  using namespace reef;
  const io::Json& read = test.json;
  if (read.is_object() && read.contains("recipe")) {
#ifdef REEF_PLAN_HAS_RECIPES
    return estimate_recipe(test);
#else
    throw OptionError("reef-plan: ", test.file,
                      " names a recipe, but this reef-plan was built without recipes.\n"
                      "  fix: build it where CMake finds an MPI and a BLAS.");
#endif
  }
  // What is expected of a pipeline may stand beside it.
  constexpr std::array<std::string_view, 16> keys{
      "C",          "R_in",   "n_b",    "B",     "T_FP",          "T_pipe",  "throughput", "flowshop_exact",
      "adaptive",   "recipe", "device", "model", "micro_batches", "network", "plan",       "graph"};
  // Where it is neither, a key of either kind of case may be what was meant.
  io::require_known_keys(read, std::span(keys).first(read.contains("C") ? 9 : keys.size()), test.file);
  const auto compute = io::require<std::vector<double>>(read, "C", test.file);
  const auto receive = io::require<std::vector<double>>(read, "R_in", test.file);
  const auto micro_batches = io::require<std::int64_t>(read, "n_b", test.file);
  const auto samples = io::value_or<double>(read, "B", 1, test.file);
  try {
    const plan::PipelineTime time = plan::pipeline_time(compute, receive, micro_batches, samples);
    return {{"T_FP", time.latency},
            {"T_pipe", time.pipelined},
            {"bottleneck_s", time.bottleneck},
            {"throughput", time.rate}};
  } catch (const OptionError& error) {
    throw DecodeError(test.file, ": C, R_in, n_b or B: ", error.what());
  }
}

}  // namespace

void add_estimate(Commands& commands) {
  commands.add(
      "estimate",
      "what a model needs, and what a pipeline of it takes (FusionLLM, Eq. 1 to 4).\n"
      "CASE: C, R_in (seconds that each stage computes and receives), n_b (micro-batches), B "
      "(samples in each; 1)\n"
      "or: recipe, model or graph, micro_batches, device, network as of simulate; device.warm_up "
      "([[operations, seconds], ...]) instead of flops; plan ([[rank, first, end], ...], "
      "operators of the model; the best where it is left out)",
      "case.json", estimate);
}

}  // namespace reef_examples
