// Purpose  A policy of one's own: AfterBackward<O> is optimizer policy O without its overlap, the
//          baseline that shows what overlap is worth. It only says what comes after what: who waits, follows.
// Command  mpiexec -n 2 build/release/examples/own-policy
// Output   equal losses: yes
//          GPT-2 on 16 ranks, predicted: overlapped 0.71 s a step, after the backward 0.86 s
// links: reef::compiled
// ranks: 2
// prints: equal losses: yes
// prints: GPT-2 on 16 ranks, predicted: overlapped 0.71 s a step, after the backward 0.86 s
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/data/sampler.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

/// Starts the first reduction when the last backward has ended: every ReduceScatter also comes after the
/// gradients of bucket 0, the last that the backward completes.
template <optim::OptimizerPolicy Inner>
struct AfterBackward : Inner {
  static void add(run::StepBuilder& builder, const run::Pass& model) {
    Inner::add(builder, model);
    for (schedule::Instruction& i : builder.program.round) {
      if (i.kind != optim::kinds::reduce_scatter || i.index == 0) continue;
      i.after.push_back({builder.reduced[0], 0});
    }
  }
};

using Plain = optim::Ddp<optim::AdamW>;
using Late = AfterBackward<Plain>;
static_assert(optim::OptimizerPolicy<Late> && composable<Late>);

template <class Optim>
double trained_loss() {
  const nn::GptConfig config{
      .layers = 2, .heads = 2, .channels = 32, .vocabulary = 256, .context = 32, .batch = 4};
  std::vector<std::uint8_t> text;  // of tokens: squares
  for (int i = 0; i < 5000; ++i) text.push_back(static_cast<std::uint8_t>(i * i % 251));
  const data::Sampler sampler(text, config.context, 1);
  Trainer<Optim> trainer(nn::gpt<device::Host, float>(config),
                         [&](std::uint64_t first, auto inputs) {
                           sampler.fill(first, inputs);
                           return 1.0;
                         });
  for (int step = 1; step < 20; ++step) trainer.step();
  return trainer.step().loss;
}

/// Seconds a step on 16 ranks of 10 Tflop/s, 1 Gbit/s and 1 ms between any two.
template <class Optim>
Seconds predicted(const graph::Graph<device::Host, float>& model) {
  const auto programs = Trainer<Optim>::programs(model, {}, 16);
  schedule::verify(programs);
  return schedule::simulate(programs, schedule::World::uniform(16, {1e13}, {1e-3, 125e6})).step;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const bool equal = trained_loss<Plain>() == trained_loss<Late>();
  if (comm::Communicator().rank() == 0) {
    const auto gpt2 = nn::gpt<device::Host, float>({.batch = 4});
    std::printf("equal losses: %s\n", equal ? "yes" : "NO");
    std::printf(
        "GPT-2 on 16 ranks, predicted: overlapped %.2f s a step, after the backward %.2f s\n",
        predicted<Plain>(gpt2), predicted<Late>(gpt2));
  }
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-policy", error);
}
