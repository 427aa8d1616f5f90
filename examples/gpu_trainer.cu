// Purpose  Trains a small GPT in bf16 on a GPU, the optimizer state sharded over all ranks, which may share one GPU.
// Command  mpiexec -n 2 build/release/examples/gpu-trainer LICENSE
// Output   step   1  loss 5.48  512 tokens
//          step 200  loss 2.4   512 tokens
// links: reef::compiled reef::cuda
// ranks: 2
// arguments: LICENSE
// prints: step   1  loss 5.
// prints: step 200  loss 2.
#include <cstdio>
#include <exception>

#include <reef/comm/environment.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/nn/cuda.cuh>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;
using GpuTrainer = Trainer<device::Cuda, precision::Bf16, optim::Zero1<optim::AdamW>>;

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const data::Corpus text({argv + 1, argv + argc});
  const nn::GptConfig config{
      .layers = 2, .heads = 2, .channels = 64, .vocabulary = 256, .context = 64, .batch = 4};
  const data::Sampler sampler(text.training(), config.context, 1);

  // Fills inputs in host memory, as for a Trainer on the host: the Trainer copies them to the device.
  const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
  GpuTrainer::Options options;
  options.learning_rate = {.peak = 3e-3, .warmup = 10, .steps = 200};

  GpuTrainer trainer(nn::gpt<device::Cuda, Bfloat16>(config), source, options);
  for (int step = 1; step <= 200; ++step) {
    const StepResult result = trainer.step();
    if (trainer.rank() == 0 && (step == 1 || step % 200 == 0)) {
      std::printf("step %3d  loss %.2f  %llu tokens\n", step, result.loss,
                  static_cast<unsigned long long>(result.tokens));
    }
  }
} catch (const std::exception& error) {
  return comm::report_failure("gpu-trainer", error);
}
