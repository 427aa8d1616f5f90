// Purpose  Step 1 of docs/tutorial.md: a model with an operator of one's own (support/tutorial.hpp), trained as
//          examples/smallest_trainer.cpp trains a GPT.
// Command  mpiexec -n 2 build/release/examples/tutorial-operator LICENSE
// Output   step   1  loss 5.55
//          step 100  loss 2.48
// links: reef::compiled
// ranks: 2
// arguments: LICENSE
// prints: step   1  loss 5.
// prints: step 100  loss 2.
#include <cstdio>
#include <exception>

#include <reef/comm/environment.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/tutorial.hpp"

using namespace reef;
using MyTrainer = Trainer<optim::Zero1<optim::AdamW>>;

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const data::Corpus text({argv + 1, argv + argc});
  const data::Sampler sampler(text.training(), 32, 1);
  const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
  MyTrainer::Options options;
  options.learning_rate = {.peak = 3e-3, .warmup = 10, .steps = 100};

  MyTrainer trainer(tutorial::model<float>(2), source, options);
  for (int step = 1; step <= 100; ++step) {
    const StepResult result = trainer.step();
    if (trainer.rank() == 0 && step % 99 == 1)
      std::printf("step %3d  loss %.2f\n", step, result.loss);
  }
} catch (const std::exception& error) {
  return comm::report_failure("tutorial-operator", error);
}
