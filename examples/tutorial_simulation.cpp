// Purpose  Step 5 of docs/tutorial.md: what a step takes on 64 ranks of three speeds in four houses, of which there is not one.
// Command  build/release/examples/tutorial-simulation [foreseen.json]
// Output   the stages of a replica in one house: 1.57 s a step; rank 0 computes 6 % of it, rank 63 25 %
//          the replicas of a stage in one house: 6.05 s a step; rank 0 computes 2 % of it, rank 63 7 %
// links: reef::compiled
// prints: the stages of a replica in one house: 1.57 s a step
// prints: the replicas of a stage in one house: 6.05 s a step
#include <cstddef>
#include <cstdio>
#include <exception>

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/tutorial.hpp"

using namespace reef;
using MyTrainer = Trainer<pipeline::OneFOneB<>, optim::Ddp<optim::AdamW>>;

int main(int argc, char** argv) try {
  // Four houses of 16 ranks. Inside a house 1 Gbit/s and 1 ms, between houses 100 Mbit/s and 20 ms.
  auto world = schedule::World::uniform(64, {.flops_per_second = 5e12},
                                        {.latency = 0.02, .bytes_per_second = 12.5e6});
  for (std::size_t from = 0; from < 64; ++from) {
    world.machines[from].flops_per_second = from < 16 ? 1e13 : from < 48 ? 5e12 : 2.5e12;
    for (std::size_t to = 0; to < 64; ++to) {
      if (from / 16 == to / 16)
        world.links[from * 64 + to] = {.latency = 0.001, .bytes_per_second = 125e6};
    }
  }
  const auto model = tutorial::model<float>(12, 512, 8, 256);
  for (const bool stage_at_home : {false, true}) {
    MyTrainer::Options options;
    options.topology = run::Topology(16, 4);  // 16 replicas of 4 stages
    options.micro_batches = {8};
    if (stage_at_home) {  // rank_at: of replica 0 the stages 0, 1, 2, 3, then those of replica 1, ...
      for (int part = 0; part < 64; ++part)
        options.topology->rank_at.push_back(part % 4 * 16 + part / 4);
    }
    const auto programs = MyTrainer::programs(model, options, 64);  // those that would run
    const schedule::Simulation foreseen = schedule::simulate(programs, world);
    std::printf("%s %.2f s a step; rank 0 computes %.0f %% of it, rank 63 %.0f %%\n",
                stage_at_home ? "the replicas of a stage in one house:"
                              : "the stages of a replica in one house:",
                foreseen.step, 100 * foreseen.utilisation[0], 100 * foreseen.utilisation[63]);
    if (argc > 1 && stage_at_home)
      trace::write_chrome(argv[1], schedule::recordings_of(programs, foreseen));
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "tutorial-simulation: %s\n", error.what());
  return 1;
}
