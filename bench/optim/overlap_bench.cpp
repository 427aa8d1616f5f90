// How much of their communication the recipes hide behind micro-batches, on links that are slow.
//
//   mpiexec --bind-to core -n 2 build/release/bench/optim_overlap_bench RATIO ROUNDS RECIPE:B...
//
// overlap.py starts it, and makes the table of what it prints: a line of JSON for each reading.
//
//     c        one micro-batch on one thread, while all ranks compute and none communicates
//     m        one exchange of the model: reduce-scatter and all-gather, while no rank computes
//     links    of a bandwidth with which m = RATIO c; they sleep and take no processor time
//     B        micro-batches of a step on each rank; RECIPE:B:alone is that step without other ranks, and
//              RECIPE:B:adaptive takes B and extra ones while it communicates
//
// c and m are read anew in every round, in which all recipes take turns, each round beginning with
// another. Seconds are the slowest rank's; wall is a step's share of the clock's time, whichever rank is the
// slowest in it: of adaptive recipes, DiLoCo and those without other ranks, whose ranks do not go in step.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/core/error.hpp>

#include "optim/gpt_setting.hpp"
#include "optim/links.hpp"
#include "support/ranks_main.hpp"
#include "optim/recipes.hpp"
#include "optim/row.hpp"
#include "support/measure.hpp"

namespace {

using namespace reef_bench;
using reef::comm::Communicator;
using reef::profile::Network;

/// Those of DiLoCo have each outer step once.
int steps_of(const Row& row) {
  if (row.recipe.starts_with("diloco")) return 20;
  return row.mode.empty() ? 4 : 12;
}

void time_all(double ratio, int rounds, const std::vector<Row>& rows) {
  const Communicator world;
  const Communicator self(MPI_COMM_SELF, "self");
  const Network links =
      links_for(ratio * micro_batch_seconds(gpt_setting, self), gpt_setting, world);
  const bool prints = world.rank() == 0;
  for (int round = 0; round < rounds; ++round) {
    const double c = micro_batch_seconds(gpt_setting, self);
    const double m = exchange_seconds(gpt_setting(1, links), world);
    if (prints) {
      std::printf(
          "{\"round\": %d, \"ranks\": %d, \"ratio\": %g, \"c\": %.6f, \"m\": %.6f, "
          "\"bytes_per_s\": "
          "%.0f}\n",
          round, world.size(), ratio, c, m, links.rate(0, 1));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[(i + static_cast<std::size_t>(round) * 5) % rows.size()];
      Setting one = gpt_setting(row.micro_batches, row.alone ? Network() : links);
      one.accumulation = row.accumulation;
      const Steps steps = time_steps(recipe_of(row.recipe), std::move(one),
                                     row.alone ? self : world, steps_of(row));
      if (!prints) continue;
      std::printf(
          "{\"round\": %d, \"recipe\": \"%s\", \"micro_batches\": %d, \"mode\": \"%s\", "
          "\"samples\": %g, "
          "\"exposed_s\": %.6f, \"sent\": %.0f, \"wall\": %.6f, \"seconds\": [",
          round, row.recipe.c_str(), row.micro_batches, row.mode.c_str(), steps.samples,
          steps.exposed, steps.sent, steps.wall);
      for (std::size_t s = 0; s < steps.seconds.size(); ++s) {
        std::printf("%s%.6f", s == 0 ? "" : ", ", steps.seconds[s]);
      }
      std::printf("]}\n");
      std::fflush(stdout);
    }
  }
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) {
    throw reef::OptionError("usage: optim_overlap_bench RATIO ROUNDS RECIPE:B...");
  }
  time_all(std::atof(arguments[0].c_str()), std::atoi(arguments[1].c_str()),
           {arguments.begin() + 2, arguments.end()});
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "optim_overlap_bench", run);
}
