// Purpose  Trains a small GPT on the bytes of text files, data-parallel over all ranks.
// Command  mpiexec -n 2 build/release/examples/smallest-trainer LICENSE
// Output   step   1  loss 5.48  512 tokens
//          step 100  loss 2.46  512 tokens
//          step 200  loss 2.41  512 tokens
// ranks: 2
// arguments: LICENSE
// prints: step   1  loss 5.
// prints: step 200  loss 2.
#include <cstdio>
#include <exception>

#include <reef/comm/environment.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;
using MyTrainer = Trainer<optim::Ddp<optim::AdamW>>;  // policies in any order; the rest is neutral

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const data::Corpus text({argv + 1, argv + argc});
  const nn::GptConfig config{
      .layers = 2, .heads = 2, .channels = 64, .vocabulary = 256, .context = 64, .batch = 4};
  const data::Sampler sampler(text.training(), config.context, 1);

  // Fills the micro-batch that starts at sample `first` (numbered over all ranks). Returns the weight of its loss: 1.
  const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
  MyTrainer::Options options;
  options.learning_rate = {.peak = 3e-3, .warmup = 10, .steps = 200};

  MyTrainer trainer(nn::gpt<device::Host, float>(config), source, options);
  for (int step = 1; step <= 200; ++step) {
    const StepResult result = trainer.step();
    if (trainer.rank() == 0 && (step == 1 || step % 100 == 0)) {
      std::printf("step %3d  loss %.2f  %llu tokens\n", step, result.loss,
                  static_cast<unsigned long long>(result.tokens));
    }
  }
} catch (const std::exception& error) {
  return comm::report_failure("smallest-trainer", error);
}
