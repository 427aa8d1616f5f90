// Purpose  Gradients go by a codec of one's own (support/ternary.hpp), alone and with error feedback around it.
// Command  mpiexec -n 2 build/release/examples/train-own-codec
// Output   as they are: ..., ternary: ..., ternary with error feedback: the loss after 12 steps, and what gradients take
// links: reef::compiled
// ranks: 2
// prints: ternary with error feedback
#include <cstdio>
#include <exception>
#include <span>

#include <reef/codec/error_feedback.hpp>
#include <reef/comm/environment.hpp>
#include <reef/compress/channels.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/ternary.hpp"

using namespace reef;
using reef_examples::Ternary;

double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) {  // every token is its own target
    auto token = static_cast<std::int32_t>(first % 1000);
    for (std::int32_t& at : input.as<std::int32_t>().span()) at = token++ % 24;
  }
  return 1.0;
}

template <class... Compress>
void train(const char* how) {
  using Tested = Trainer<optim::Zero1<optim::AdamW>, Compress...>;
  const nn::GptConfig config{.layers = 1, .heads = 2, .channels = 24, .vocabulary = 24, .context = 16, .batch = 4};
  typename Tested::Options options;
  options.learning_rate = {.peak = 0.01};
  Tested trainer(nn::gpt<device::Host, float>(config), fill, options);
  double loss = 0;
  for (int step = 0; step < 12; ++step) loss = trainer.step().loss;
  Bytes sent = 0;
  for (const schedule::Instruction& i : trainer.program().round) {
    for (const auto& message : i.sends) sent += i.traffic == schedule::Traffic::gradient ? message.bytes : 0;
  }
  if (trainer.rank() == 0) {
    std::printf("%-28s loss after 12 steps %.4f, gradients of a step and rank %s\n", how, loss, format_bytes(sent).c_str());
  }
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  train<>("as they are:");
  train<compress::Channels<compress::Gradient<Ternary>>>("ternary:");
  train<compress::Channels<compress::Gradient<codec::ErrorFeedback<Ternary>>>>("ternary with error feedback:");
  return 0;
} catch (const std::exception& error) {
  return comm::report_failure("train-own-codec", error);
}
