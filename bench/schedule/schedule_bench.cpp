// What a rank does before the first step, for GPT-2 124M on 2 and 8 ranks: placing its storages and deriving
// its dependencies, verifying the programs of all ranks together, simulating two rounds of them.
//
//   roof      copying the programs: each instruction is touched once. M/s are instructions

#include <span>
#include <string>
#include <vector>

#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using Trainer = reef::Trainer<optim::Zero1<optim::AdamW>>;

void bench(const std::string& name, int ranks,
           const std::function<void(const std::vector<schedule::Program>&)>& work) {
  reef_bench::add(name + "/ranks:" + std::to_string(ranks), 9, [=](benchmark::State& state) {
    Trainer::Options options;
    options.micro_batches = {4};
    const auto programs = Trainer::programs(nn::gpt<device::Host, float>({}, 1), options, ranks);
    double instructions = 0;
    for (const schedule::Program& program : programs)
      instructions += static_cast<double>(program.round.size());
    reef_bench::compare(state, [&] { return reef_bench::seconds_of([&] { work(programs); }); },
                        {{"roof",
                          [&] {
                            return reef_bench::seconds_of([&] {
                              auto copy = programs;
                              benchmark::DoNotOptimize(copy.data());
                            });
                          }}},
                        {.items = instructions});
  });
}

void register_all() {
  for (const int ranks : {2, 8}) {
    bench("derive", ranks, [](const auto& programs) {
      for (const schedule::Program& program : programs) {
        benchmark::DoNotOptimize(schedule::derive(program, schedule::place(program)));
      }
    });
    bench("verify", ranks, [](const auto& programs) { schedule::verify(programs); });
    bench("simulate", ranks, [ranks](const auto& programs) {
      const auto world = schedule::World::uniform(ranks, {1e11, 2e10, 1e10, 1e-5}, {1e-4, 1e9});
      benchmark::DoNotOptimize(schedule::simulate(programs, world).total);
    });
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
