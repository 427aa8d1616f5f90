#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/chain_json.hpp>
#include <reef/plan/swap_program.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trace/chrome.hpp>

#include "commands.hpp"

namespace reef_examples {

namespace {

/// Two iterations of the steady state: what stays from one to the next is there.
void write_trace(const std::string& file, const reef::plan::Chain& chain,
                 const std::vector<int>& bounds, const reef::plan::SwapSchedule& schedule) {
  using namespace reef;
  constexpr double microsecond = 1e-6;
  const schedule::Program program = plan::swap_program(chain, bounds, schedule);
  const std::span one(&program, 1);
  const schedule::Simulation run = schedule::simulate(one, schedule::World::uniform(1, {}, {}), 2);
  trace::write_chrome(file, schedule::recordings_of(one, run, microsecond));
}

}  // namespace

reef::io::Json simulate(const PlanOptions& options) {
  using namespace reef;
  const io::Json test = io::read_json(options.file);
  if (test.is_object() && test.contains("recipe")) {
#ifdef REEF_PLAN_HAS_RECIPES
    return simulate_recipe(test, options);
#else
    throw OptionError("reef-plan: ", options.file,
                      " names a recipe, but this reef-plan was built without recipes.\n"
                      "  fix: build it where CMake finds an MPI and a BLAS.");
#endif
  }
  constexpr std::array<std::string_view, 9> keys{
      "variant", "C", "cuts", "opts", "chain", "recipe", "micro_batches", "device", "network"};
  // Where it is neither, a key of either kind of case may be what was meant.
  io::require_known_keys(test, std::span(keys).first(test.contains("chain") ? 5 : 9), options.file);
  const plan::Chain chain = plan::chain_from_json(
      io::require<io::Json>(test, "chain", options.file), options.file, false);
  const auto name = io::require<std::string>(test, "variant", options.file);
  const auto lanes = plan::swap_lanes_of(name);
  if (!lanes) {
    throw DecodeError("reef::plan: ", options.file, ": 'variant' is '", name,
                      "'.\n  fix: atom2, atom3, zero or zero_sync.");
  }
  plan::SwapSchedule schedule;
  schedule.lanes = *lanes;
  schedule.accumulation = io::require<std::int64_t>(test, "C", options.file);
  if (test.contains("opts") && !test["opts"].is_object()) {
    throw DecodeError("reef::plan: ", options.file,
                      ": 'opts' is no object.\n  fix: {} or leave it out.");
  }
  io::require_known_keys(io::value_or(test, "opts", io::Json::object(), options.file),
                         std::array<std::string_view, 2>{"slots", "turn"}, options.file, "opts");
  schedule.slots = io::value_or<int>(test, "opts.slots", 0, options.file);
  schedule.turn = io::value_or<bool>(test, "opts.turn", false, options.file);
  std::vector<int> bounds{0};
  for (const int cut : io::require<std::vector<int>>(test, "cuts", options.file))
    bounds.push_back(cut);
  bounds.push_back(chain.size());
  const plan::SwapTimes times = plan::swap_times(chain, bounds, schedule);
  if (!options.trace.empty()) write_trace(options.trace, chain, bounds, schedule);
  return {{"iter_us", times.iteration},
          {"compute_us", times.compute},
          {"first_iter_us", times.first},
          {"utilisation", times.utilisation()}};
}

}  // namespace reef_examples
