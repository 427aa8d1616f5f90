// Trains a GPT on text files or files of tokens, on all ranks of an MPI job.
//
//   mpiexec -n 4 build/release/examples/reef-train --recipe zero1 --data *.txt --steps 500
//   mpiexec -n 4 build/release/examples/reef-train --tokenizer gpt2:DIR --data fineweb_*.bin
//
// Without --data it trains on Reef's own sources. `reef-train --help` lists everything.
//
// links: reef::compiled text

#include <signal.h>

#include <algorithm>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include <reef/comm/environment.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/core/version.hpp>

#include "../support/standard_output.hpp"
#include "agreement.hpp"
#include "command_line.hpp"
#include "option_sense.hpp"
#include "options.hpp"
#include "recipes.hpp"

namespace {

/// The exit status for options that cannot be.
constexpr int refused_status = 2;

}  // namespace

int main(int argc, char** argv) {
  const reef::comm::StopRequest stop;  // before anything that takes long
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of that file, not the end
  reef_examples::TrainOptions options;
  CLI::App app("Trains a GPT on all ranks of an MPI job.", "reef-train");
  app.set_help_flag("-h,--help", "[RECIPE]: this message, or the options of that recipe alone");
  app.set_version_flag("--version", std::string("reef-train ") + reef::version);
  app.footer(
      "SIGINT, SIGTERM, SIGHUP or SIGUSR1 to any rank, or SIGUSR1 to mpiexec: all ranks finish "
      "their step "
      "(of diloco and sparse the next with an outer step), write the checkpoint, weights, trace, report and "
      "metrics "
      "that were asked for, and end with status 75. A second signal ends at once.\n"
      "Status 0: all is done; 1: something failed, and is told; 2: options that cannot be, told before the ranks meet.");
  try {
    reef_examples::add_options(app, options);
    reef_examples::parse(app, options, argc, argv);
    reef_examples::require_sense(app, options);
  } catch (const CLI::ParseError& error) {
    return reef_examples::end_parsing(app, error, refused_status, [](const std::string& text) {
      reef::comm::report_failure(text);
    });
  } catch (const std::exception& error) {
    reef::comm::report_failure("reef-train", error);
    return refused_status;
  }

  try {
    // Ranks read their data before they meet, and give no sign of life yet.
    const double start = options.deadline > 0 ? std::max(30.0, 20 * options.deadline) : 0;
    const reef::comm::Environment environment(argc, argv, start);
    reef_examples::take_figures_of_rank(options);
    reef_examples::require_same_options(app, options);
    reef_examples::require_outputs(options);
    options.of_the_run = reef_examples::options_of_the_run(app, options);
    return reef_examples::recipe_of(options.recipe)(options, stop);
  } catch (const std::exception& error) {
    return reef::comm::report_failure("reef-train", error);
  }
}
