// What changes: a Trainer, of headers that declare what reef.cpp has.
#include <cstdio>
#include <exception>

#include <reef/comm/environment.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const nn::GptConfig config{.layers = 1, .heads = 2, .channels = 16, .vocabulary = 16, .context = 8, .batch = 4};
  const auto source = [](std::uint64_t first, std::span<const AnyView> inputs) {
    for (const AnyView& input : inputs) {  // tokens, and the one behind each as its target
      auto token = static_cast<std::int32_t>(first + (&input == &inputs[1] ? 1 : 0));
      for (std::int32_t& number : input.as<std::int32_t>().span()) number = token++ % 16;
    }
    return 1.0;
  };
  Trainer<optim::Ddp<optim::AdamW>> trainer(nn::gpt<device::Host, float>(config, 1), source);
  for (int step = 1; step <= 50; ++step) {
    const StepResult result = trainer.step();
    if (trainer.rank() == 0 && step % 25 == 0) std::printf("step %2d  loss %.2f\n", step, result.loss);
  }
} catch (const std::exception& error) {
  return comm::report_failure("train", error);
}
