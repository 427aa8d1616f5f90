// What a rank does before the first step, by the number of its micro-batches: writing a program, placing it,
// verifying the programs of all ranks together, and hashing them. As plain data: no rank runs here.
//
//   startup_bench [ranks]     a line for each count, in milliseconds of a core; and per micro-batch and rank, all of it

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/hash.hpp>
#include <reef/schedule/verify.hpp>

namespace {

using namespace reef;

/// The milliseconds of a core that an action takes.
template <class Action>
double time_of(const Action& action) {
  const std::clock_t begin = std::clock();
  action();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

template <class Optim>
void measure(const char* name, const graph::Dag& dag, int ranks, bool discrete) {
  for (const int count : {256, 1024, 4096, 16384}) {
    run::StepPlan plan =
        run::make_step_plan(dag, run::choose_cuts(dag, 1 << 18), ranks, 1,
                            std::vector<int>(static_cast<std::size_t>(ranks), count), discrete);
    if constexpr (optim::overlapping_policy<Optim>) {
      plan.phases_per_step = Optim::phases_per_step;
      plan.own_master = true;
    }
    std::vector<schedule::Program> programs;
    const double written = time_of([&] {
      for (int rank = 0; rank < ranks; ++rank) {
        run::StepBuilder builder(plan, rank, run::Purpose::training);
        Optim::reserve(builder);
        Optim::add(builder, pipeline::Single::add);
        programs.push_back(run::staged(plan, std::move(builder.program)));
      }
    });
    schedule::Placement placement;
    const double placed = time_of([&] { placement = schedule::place(programs.front()); });
    const double derived = time_of([&] { (void)schedule::derive(programs.front(), placement); });
    const double verified = time_of([&] { schedule::verify(programs); });
    std::uint64_t hash = 0;
    const double hashed = time_of([&] { hash = schedule::hash_of(programs); });
    std::printf("%-14s %6d %9.1f %9.1f %9.1f %9.1f %9.1f %12.4f   %016llx\n", name, count, written,
                placed, derived, verified, hashed,
                (written + placed + derived + verified + hashed) / count / ranks,
                static_cast<unsigned long long>(hash));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 1;
  const nn::GptConfig config{
      .layers = 1, .heads = 2, .channels = 32, .vocabulary = 256, .context = 16, .batch = 4};
  const auto model = nn::gpt<device::Host, float>(config, 1);
  std::printf("%-14s %6s %9s %9s %9s %9s %9s %12s   %s\n", "recipe", "count", "write", "place",
              "derive", "verify", "hash", "ms each", "programs");
  measure<optim::Ddp<optim::AdamW>>("ddp", model.dag(), ranks, false);
  measure<optim::Acco<optim::AdamW>>("acco", model.dag(), ranks, false);
  measure<optim::Ddp<optim::AdamW>>("ddp, discrete", model.dag(), ranks, true);
}
