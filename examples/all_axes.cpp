// Purpose  All axes in one Trainer: stages that are placed by the links (DT-FM), swap (ATOM), send activations by AdaTopK
//          (FusionLLM), and reduce beside their micro-batches (ACCO).
// Command  mpiexec -n 4 build/release/examples/all-axes LICENSE
// Output   step   1  loss 5.52
//          step 100  loss 2.54
//          device memory: 1.89 MiB, as estimated; the stage's weights, gradients and states are 1.55 MiB
// links: reef::compiled
// ranks: 4
// arguments: LICENSE
// prints: step   1  loss 5.
// prints: step 100  loss 2.
// prints: , as estimated
#include <cstdio>
#include <exception>

#include <reef/comm/environment.hpp>
#include <reef/compress/ada_top_k.hpp>
#include <reef/core/text.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/profile/network.hpp>
#include <reef/run/allocated_stages.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;
using MyTrainer = Trainer<swap::Atom<>,                // segments pass through the device
                          pipeline::OneFOneB<>,        // a rank has a stage of the model
                          compress::AdaTopK,           // slow links between stages carry less
                          optim::Acco<optim::AdamW>>;  // gradients travel beside the next micro-batches

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const comm::Communicator world;  // an even number of ranks, or one
  const data::Corpus text({argv + 1, argv + argc});
  const nn::GptConfig config{
      .layers = 4, .heads = 2, .channels = 64, .vocabulary = 256, .context = 32, .batch = 4};
  const data::Sampler sampler(text.training(), config.context, 1);
  const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };

  // Two sites, ranks 0, 1, ... and the rest, with a slow link between them.
  auto links = profile::Network::uniform(world.size(), 0.001, 1e8);
  const auto site = [&](int rank) { return 2 * rank / world.size(); };
  for (int from = 0; from < world.size(); ++from) {
    for (int to = 0; to < world.size(); ++to)
      if (site(from) != site(to)) links.rates[static_cast<std::size_t>(from * world.size() + to)] = 1e7;
  }

  const auto model = nn::gpt<device::Host, float>(config, 1);
  MyTrainer::Options options;
  const int stages = world.size() > 1 ? 2 : 1;
  options.topology = run::allocated_stages(model.dag(), run::Topology(world.size() / stages, stages), links, 4).topology;
  options.micro_batches = {2};  // of a replica in each of Acco's two phases
  options.learning_rate = {.peak = 3e-3, .warmup = 10, .steps = 100};
  options.device.threads = 1;
  options.device.memory_bytes = 2'500'000;
  options.device.link_bytes_per_second = 4e9;

  options.network = links;
  options.compress.activation.ratio = 4;

  options = MyTrainer::planned(model, options, world.size());  // how segments are cut and swapped
  const StepEstimate foreseen = MyTrainer::estimate(model, options, world.size(), world.rank());
  MyTrainer trainer(model, source, options);
  for (int step = 1; step <= 100; ++step) {
    const StepResult result = trainer.step();
    if (trainer.rank() == 0 && (step == 1 || step % 100 == 0)) std::printf("step %3d  loss %.2f\n", step, result.loss);
  }
  const Bytes peak = trainer.device().memory().peak;
  if (trainer.rank() == 0) {
    std::printf("device memory: %s%s; the stage's weights, gradients and states are %s\n", format_bytes(peak).c_str(),
                peak == foreseen.device_bytes ? ", as estimated" : "",
                format_bytes(foreseen.weights + foreseen.gradients + foreseen.optimizer_state).c_str());
  }
} catch (const std::exception& error) {
  return comm::report_failure("all-axes", error);
}
