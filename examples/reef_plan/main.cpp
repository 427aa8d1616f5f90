// Plans: reads a case, prints one JSON object.
//
//   build/release/examples/reef-plan swap CASE.json --variant three
//   build/release/examples/reef-plan simulate CASE.json --trace trace.json
//
// What cannot be is an answer, with `feasible: false` and `why`, and exit status 0. A case that cannot be
// read is a line on standard error and exit status 2; an answer that cannot be written, 1. `reef-plan --help` lists everything.

#include <signal.h>

#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include <reef/core/error.hpp>
#include <reef/core/version.hpp>

#include "../support/standard_output.hpp"
#include "commands.hpp"

namespace {

constexpr int unreadable = 2;
constexpr int unwritable = 1;

void tell(const std::exception& error) {
  std::fprintf(stderr, "reef-plan: %s\n", reef_examples::in_one_line(error.what()).c_str());
}

int run(int argc, char** argv) {
  CLI::App app(
      "Plans for machines that do not form a cluster: reads a case, prints one JSON object.",
      "reef-plan");
  app.set_version_flag("--version", std::string("reef-plan ") + reef::version);
  app.require_subcommand(0, 1);
  reef_examples::Commands commands(app);
  reef_examples::add_swap(commands);
  reef_examples::add_simulate(commands);
  reef_examples::add_allocate(commands);
  reef_examples::add_cluster(commands);
  reef_examples::add_op_fence(commands);
  reef_examples::add_schedule(commands);
  reef_examples::add_adatopk(commands);
  reef_examples::add_encode(commands);
  reef_examples::add_estimate(commands);
  reef_examples::add_messages(commands);
  reef_examples::add_sub_dags(commands);
  reef_examples::add_blocks(commands);
  reef_examples::add_route(commands);
#ifdef REEF_PLAN_HAS_RECIPES
  reef_examples::add_plan(commands);
#endif
  reef_examples::add_measure(commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0)
      return reef_examples::end_parsing(app, error, unreadable, [](const std::string&) {});
    std::fprintf(stderr, "reef-plan: %s fix: see reef-plan --help\n",
                 reef_examples::in_one_line(error.what()).c_str());
    return unreadable;
  }
  const auto answer = [&commands] {
    const reef::io::Json json = commands.answer();
    return json.is_string() ? json.get<std::string>() : json.dump() + "\n";
  };
  const std::string text = !commands.hint().empty() ? commands.hint()
                           : commands.chosen()      ? answer()
                                                    : reef_examples::wrapped(commands.list());
  try {
    reef_examples::print(text, "the answer");
  } catch (const reef::FileError& error) {
    tell(error);
    return unwritable;
  }
  return reef_examples::output_failed() ? unwritable : 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of that file, and the answer is still to come
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    tell(error);
    return unreadable;
  }
}
