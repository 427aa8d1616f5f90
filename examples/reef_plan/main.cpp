// Plans: reads a case, prints one JSON object.
//
//   build/release/examples/reef-plan swap CASE.json --variant three
//   build/release/examples/reef-plan simulate CASE.json --trace trace.json
//
// What cannot be is an answer, with `feasible: false` and `why`, and exit status 0. A case that cannot be
// read is a line on standard error and exit status 2. `reef-plan --help` lists everything.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/core/error.hpp>
#include <reef/core/version.hpp>
#include <reef/plan/variant.hpp>

#include "../support/file_roles.hpp"
#include "../support/number_option.hpp"
#include "commands.hpp"

namespace {

using reef_examples::number_from;

constexpr int unreadable = 2;

/// An error's text in one line.
std::string in_one_line(std::string text) {
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
    const std::size_t end = text.find_first_not_of(" \n", at);
    text.replace(at, (end == std::string::npos ? text.size() : end) - at, " ");
  }
  return text;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Plans for machines that do not form a cluster: reads a case, prints one JSON object.");
  app.set_version_flag("--version", std::string("reef-plan ") + reef::version);
  app.require_subcommand(1);
  reef_examples::PlanOptions options;
  reef::io::Json (*command)(const reef_examples::PlanOptions&) = nullptr;
  const auto add = [&](const char* name, const char* what, auto* function) {
    CLI::App* const sub = app.add_subcommand(name, what);
    sub->add_option("CASE", options.file, "a JSON file that holds one object: the case")
        ->required();
    sub->add_option("--seed", options.seed, "of what is drawn; this command draws nothing")
        ->transform(number_from<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()));
    sub->add_option("--budget", options.budget, "seconds; this command takes what it needs")
        ->transform(number_from<double>(0, 1e9));
    sub->callback([&command, function] { command = function; });
    return sub;
  };
  CLI::App* const swap =
      add("swap",
          "where to cut a chain of operators into sub-models that are swapped through the device.\n"
          "CASE: cap (bytes), C (micro-batches; 0 finds the fewest), chain {w, g, wsf, wsb, tf, "
          "tb, tl, of, "
          "ob, cut} (bytes and whole us)",
          reef_examples::swap);
  swap->add_option("--variant", options.variant, "which rules a partition keeps")
      ->check(CLI::IsMember(std::vector<std::string>(reef::plan::variant_names.begin(),
                                                     reef::plan::variant_names.end())))
      ->capture_default_str();
  CLI::App* const simulate =
      add("simulate",
          "what a schedule takes, in virtual time.\n"
          "CASE: variant (atom2, atom3, zero, zero_sync), C, cuts, opts "
          "{slots (of atom3; 0 is no limit), turn (of both atoms)}, chain "
          "{tf, tb, tl, of, ob} (whole us)\n"
          "or: recipe (of reef-train), model (LAYERSxHEADSxCHANNELS, or an "
          "object with layers, heads, channels, vocabulary, context, "
          "batch), micro_batches, device {memory_bytes (0: no limit), link_gbps (GB/s), flops, "
          "memory_gbps "
          "(GB/s; 0: updates and what else memory bounds take no time)}, "
          "network {ranks, latency_ms, bandwidth_gbps (Gbit/s), uplink_gbps and "
          "downlink_gbps (of all links of a rank together; may be left out)}",
          reef_examples::simulate);
  simulate->add_option("--trace", options.trace,
                       "write the schedule as a Chrome trace to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "reef-plan: %s fix: see reef-plan --help\n",
                 in_one_line(error.what()).c_str());
    return unreadable;
  }
  reef_examples::FileRoles files;
  files.reads("the case", options.file);
  files.writes("--trace", options.trace);
  if (const auto clash = files.clash())
    throw reef::OptionError(clash->first, ": ", clash->second, ".");
  const reef::io::Json answer = command(options);
  std::printf("%s\n", answer.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reef-plan: %s\n", in_one_line(error.what()).c_str());
    return unreadable;
  }
}
