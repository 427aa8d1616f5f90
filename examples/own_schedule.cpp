// Purpose  A pipeline schedule of one's own: where the chunks of a model are, and in which order a stage runs them.
//          Here each stage has two chunks, placed as a V, so the first stage has the loss beside the inputs.
// Command  mpiexec -n 2 build/release/examples/own-schedule
// Output   foreseen: 0.20 of the step is bubble, 8 activations of a chunk on a stage
//          step 10: loss 1.6327
// links: reef::compiled
// ranks: 2
// prints: foreseen: 0.20 of the step is bubble
#include <algorithm>
#include <cstdio>

#include <reef/comm/environment.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

struct Vee : pipeline::Scheduled<Vee> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    plan::PipelineOrder order{micro_batches, {}, {}};
    order.tasks.resize(static_cast<std::size_t>(stages));
    for (int c = 0; c < 2 * stages; ++c) order.rank_of_chunk.push_back(std::min(c, 2 * stages - 1 - c));
    const auto add = [&](plan::PipelineTaskKind kind, int chunk) {
      auto& tasks = order.tasks[static_cast<std::size_t>(std::min(chunk, 2 * stages - 1 - chunk))];
      for (int j = 0; j < micro_batches; ++j) tasks.push_back({kind, chunk, j});
    };
    for (int c = 0; c < 2 * stages; ++c) add(plan::PipelineTaskKind::forward, c);
    for (int c = 2 * stages; c-- > 0;) add(plan::PipelineTaskKind::backward, c);
    return order;
  }
  static std::vector<int> stage_of_chunk(int stages, const Options&) { return order(stages, 1).rank_of_chunk; }
};

double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  for (auto& token : inputs[0].as<std::int32_t>().span()) token = static_cast<std::int32_t>(first++ % 9);
  for (auto& target : inputs[1].as<std::int32_t>().span()) target = static_cast<std::int32_t>(first++ % 9);
  return 1;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  Trainer<Vee, optim::Ddp<optim::AdamW>>::Options options;
  options.topology = run::Topology(1, 2);
  options.micro_batches = {4};
  plan::PipelineModel model{Vee::order(2, 4)};
  model.times = plan::PipelineTimes::even(model.order, 1, 1, 1);
  const plan::PipelineEstimate foreseen = plan::estimate(model);
  const nn::GptConfig gpt{.layers = 4, .heads = 2, .channels = 32, .vocabulary = 9, .context = 16, .batch = 2};
  Trainer<Vee, optim::Ddp<optim::AdamW>> trainer(nn::gpt<device::Host, float>(gpt), fill, options);  // proves it
  for (int step = 1; step < 10; ++step) trainer.step();
  const double loss = trainer.step().loss;
  if (trainer.rank() > 0) return 0;
  std::printf("foreseen: %.2f of the step is bubble, %d activations of a chunk on a stage\nstep 10: loss %.4f\n",
              foreseen.bubble, foreseen.peak_activations[0], loss);
} catch (const std::exception& error) {
  return comm::report_failure("own-schedule", error);
}
