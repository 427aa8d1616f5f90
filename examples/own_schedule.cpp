// Purpose  A pipeline schedule of one's own: an order for each stage, and where the chunks of the model are. Each
//          stage has two chunks, placed as a V, so the first stage has the loss beside the inputs.
// Command  mpiexec -n 2 build/release/examples/own-schedule
// Output   foreseen: 0.20 of the step is bubble, 8 activations of a chunk on a stage
//          step 10: loss 1.6327
//          bits of one process: yes
// ranks: 2
// prints: bits of one process: yes
#include <cstdio>
#include <exception>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;
using enum plan::PipelineTaskKind;

struct Folded : pipeline::Scheduled<Folded> {
  static std::vector<int> stage_of_chunk(int stages, const Options& /*none*/) {
    std::vector<int> places;
    for (int chunk = 0; chunk < 2 * stages; ++chunk) {
      places.push_back(chunk < stages ? chunk : 2 * stages - 1 - chunk);
    }
    return places;
  }
  static plan::PipelineOrder order(int stages, int micro_batches) {
    plan::PipelineOrder order{micro_batches, stage_of_chunk(stages, {}), {}};
    for (int r = 0; r < stages; ++r) {
      auto& tasks = order.tasks.emplace_back();
      const int chunks[] = {r, 2 * stages - 1 - r};
      for (const int chunk : {chunks[0], chunks[1]}) {
        for (int j = 0; j < micro_batches; ++j) tasks.push_back({forward, chunk, j});
      }
      for (const int chunk : {chunks[1], chunks[0]}) {
        for (int j = 0; j < micro_batches; ++j) tasks.push_back({backward, chunk, j});
      }
    }
    return order;
  }
};

double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) {
    for (auto& token : input.as<std::int32_t>().span()) token = static_cast<std::int32_t>(first++ % 9);
  }
  return 1;
}

template <class Tested, class... Ranks>
double tenth_loss(typename Tested::Options options, const Ranks&... ranks) {
  options.micro_batches = {4};
  const nn::GptConfig model{.layers = 4, .heads = 2, .channels = 32, .vocabulary = 9, .context = 16, .batch = 2};
  Tested trainer(nn::gpt<device::Host, float>(model), fill, options, {}, ranks...);
  for (int step = 0; step < 9; ++step) trainer.step();
  return trainer.step().loss;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const comm::Communicator world;
  plan::PipelineModel foreseen{Folded::order(world.size(), 4)};
  foreseen.times = plan::PipelineTimes::even(foreseen.order, 1, 1, 1);
  const plan::PipelineEstimate estimate = plan::estimate(foreseen);

  using Piped = Trainer<Folded, optim::Ddp<optim::AdamW>>;
  Piped::Options options;
  options.topology = run::Topology(1, world.size());
  const double loss = tenth_loss<Piped>(options, world);
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const bool equal = loss == tenth_loss<Trainer<optim::Ddp<optim::AdamW>>>({}, self);
  if (world.rank() == 0) {
    std::printf("foreseen: %.2f of the step is bubble, %d activations of a chunk on a stage\n",
                estimate.bubble, estimate.peak_activations[0]);
    std::printf("step 10: loss %.4f\nbits of one process: %s\n", loss, equal ? "yes" : "NO");
  }
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-schedule", error);
}
