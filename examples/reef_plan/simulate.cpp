#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
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
void write_trace(const std::string& file, const reef::plan::OperatorChain& chain,
                 const std::vector<int>& bounds, const reef::plan::AtomSchedule& schedule) {
  using namespace reef;
  constexpr double microsecond = 1e-6;
  const schedule::Program program = plan::swap_program(chain, bounds, schedule);
  const std::span one(&program, 1);
  const schedule::Simulation run = schedule::simulate(one, schedule::World::uniform(1, {}, {}), 2);
  trace::write_chrome(file, schedule::recordings_of(one, run, microsecond));
}

reef::io::Json simulate(const PlanCase& read, const std::string& trace) {
  using namespace reef;
  const io::Json& test = read.json;
  if (test.contains("recipe")) {
#ifdef REEF_PLAN_HAS_RECIPES
    return simulate_recipe(read, trace);
#else
    throw OptionError("reef-plan: ", read.file,
                      " names a recipe, but this reef-plan was built without recipes.\n"
                      "  fix: build it where CMake finds an MPI and a BLAS.");
#endif
  }
  // Of a chain, model and recompute say what it is a chain of.
  constexpr std::array<std::string_view, 12> keys{"variant", "C",         "cuts",          "opts",
                                                  "chain",   "model",     "recompute",     "recipe",
                                                  "graph",   "micro_batches", "device", "network"};
  // Where it is neither, a key of either kind of case may be what was meant.
  io::require_known_keys(test, std::span(keys).first(test.contains("chain") ? 7 : keys.size()), read.file);
  if (!test.contains("chain")) {
    throw DecodeError("reef::plan: ", read.file, ": there is neither 'recipe' nor 'chain'.\n",
                      "  fix: a recipe of reef-train, or a chain; reef-plan simulate --help says "
                      "what else a case of either has.");
  }
  const plan::OperatorChain chain =
      plan::chain_from_json(io::require<io::Json>(test, "chain", read.file), read.file, false);
  const auto name = io::require<std::string>(test, "variant", read.file);
  const auto lanes = plan::swap_lanes_of(name);
  if (!lanes) {
    throw DecodeError("reef::plan: ", read.file, ": 'variant' is ", in_quotes(name),
                      ".\n  fix: atom2, atom3, zero or zero_sync.");
  }
  plan::AtomSchedule schedule;
  schedule.lanes = *lanes;
  schedule.accumulation = io::require<std::int64_t>(test, "C", read.file);
  if (test.contains("opts") && !test["opts"].is_object()) {
    throw DecodeError("reef::plan: ", read.file,
                      ": 'opts' is no object.\n  fix: {} or leave it out.");
  }
  io::require_known_keys(io::value_or(test, "opts", io::Json::object(), read.file),
                         std::array<std::string_view, 2>{"slots", "turn"}, read.file, "opts");
  schedule.weight_slots = io::value_or<int>(test, "opts.slots", 0, read.file);
  schedule.turn = io::value_or<bool>(test, "opts.turn", false, read.file);
  std::vector<int> bounds{0};
  for (const int cut : io::require<std::vector<int>>(test, "cuts", read.file))
    bounds.push_back(cut);
  bounds.push_back(chain.size());
  const plan::SwapTimes times = plan::swap_times(chain, bounds, schedule);
  write_output(trace, [&] { write_trace(trace, chain, bounds, schedule); });
  return {{"iter_us", times.iteration},
          {"compute_us", times.compute},
          {"first_iter_us", times.first},
          {"utilisation", times.utilisation()}};
}

}  // namespace

void add_simulate(Commands& commands) {
  const auto trace = std::make_shared<std::string>();
  CLI::App* const command = commands.add(
      "simulate",
      "what a schedule takes, in virtual time.\n"
      "CASE: variant (atom2, atom3, zero, zero_sync), C, cuts, opts {slots (of atom3; 0 is no "
      "limit), "
      "turn (of both atoms)}, chain {tf, tb, tl, of, ob} (whole us)\n"
      "or: recipe (of reef-train), model (\"16x8x512\", LAYERSxHEADSxCHANNELS, with vocabulary (256), context (128) and batch (8) beside it, or "
      "{layers, heads, channels, vocabulary, context, batch}) or graph (a model's file, docs/graph_files.md, whose inputs say of how many samples a micro-batch is), freeze (patterns) and lora, as --freeze and --lora of reef-train, micro_batches, device {memory_bytes (0: no limit), "
      "link_gbps (GB/s), flops, memory_gbps (GB/s; 0: updates and what else memory bounds take no "
      "time)}, network {ranks, latency_ms, bandwidth_gbps (Gbit/s), uplink_gbps and downlink_gbps "
      "(of "
      "all links of a rank together; may be left out), as reef-train --network} or the name of a file with it, such as reef-measure writes, whose speeds are "
      "not heeded: all devices are alike; of dtfm, fusion and reef stages, pipeline, layout, unit, rank_at (by replica "
      "and stage), one_mask, adapt_ratios; of diloco and sparse sync_every, fragments, overlap; of acco, acco-wp, dpu and reef accumulate (fixed, the default of all four, where reef-train's of acco is adaptive; "
      "adaptive: micro_batches or more, for as long as a phase communicates; or cap:M, but at most M of a replica in a phase; the answer has those of all replicas); compress {CHANNEL: CODEC} of ddp, "
      "zero1, acco, dtfm, fusion, reef. micro_batches are of a replica in a step: acco and reef have half of them in each "
      "of two phases",
      "case.json --trace foreseen.json",
      [trace](const PlanCase& test) { return simulate(test, *trace); });
  commands.add_output(command, "--trace", Output::trace, *trace,
                      "write the schedule as a Chrome trace to this file");
}

}  // namespace reef_examples
