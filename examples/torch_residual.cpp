// Purpose  A residual network over three ranks: two run its convolutions in libtorch, the last one native operators alone,
//          behind a slow link that AdaTopK compresses. It learns the angle of stripes in images that it makes.
// Command  mpiexec -n 3 build/release/examples/torch-residual
// Output   rank  engine  parameters  receives    sends       nodes; messages of a micro-batch, before they are compressed
//             0  torch   20.06 KiB   512.00 KiB  512.00 KiB  stem block.0
//             1  torch   129.25 KiB  576.00 KiB  576.00 KiB  block.1 block.2 pool
//             2  native  530.79 KiB  64.00 KiB   64.00 KiB   norm hidden gelu head loss
//          step   1  loss 2.3081  held out 2.3141  after 0.20 s
//          step  20  loss 0.7325  held out 0.9492  after 3.41 s
//          step  40  loss 0.3203  held out 0.4282  after 6.79 s
//          a step sends 0 -> 1 2097408 bytes for 2097152 of activations
//          a step sends 1 -> 2 20893 bytes for 262144 of activations
//          a step sends 1 -> 0 2097408 bytes for 2097152 of activation gradients
//          a step sends 2 -> 1 17872 bytes for 262144 of activation gradients
// links: reef::compiled reef::torch
// ranks: 3
// prints:    0  torch
// prints:    1  torch
// prints:    2  native
// prints: step   1  loss 2.
// prints: step  40  loss 0.
// prints: held out 0.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <torch/torch.h>

#include <reef/comm/environment.hpp>
#include <reef/comm/gather.hpp>
#include <reef/compress/ada_top_k.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/sub_dags.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/torch/module.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/number_option.hpp"
#include "support/residual_network.hpp"

namespace {

using namespace reef_examples;
using MyTrainer = reef::Trainer<reef::pipeline::OneFOneB<>, reef::compress::AdaTopK, reef::optim::Ddp<reef::optim::AdamW>>;

constexpr int ranks = 3, micro_batches = 4;

/// Of the command line: main() says what they are.
struct Settings {
  std::string compress = "adaptive";
  double ratio = 10, fast = 10'000, slow = 2, gflops = 0;
  int steps = 40, every = 20;
  std::uint64_t seed = 1;
};

/// Who computes what, in which engine, and what goes between ranks.
void print_parts(const MyTrainer& trainer) {
  const reef::graph::Dag& dag = *trainer.plan().dag;
  std::vector<int> rank_of_node;
  for (std::size_t s = 0; s < trainer.plan().segments.size(); ++s) {
    rank_of_node.resize(static_cast<std::size_t>(trainer.plan().segments[s].last), trainer.plan().stage_of_segment[s]);
  }
  std::printf("rank  engine  parameters  receives    sends       nodes; messages of a micro-batch, before they are compressed\n");
  for (const reef::graph::SubDag& part : reef::graph::sub_dags(dag, rank_of_node, ranks)) {
    std::string nodes;
    std::size_t of_torch = 0;
    for (const int n : part.nodes) {
      nodes += " " + dag.node_at(n).name;
      of_torch += dag.node_at(n).kind == reef::torch::Module::kind ? 1 : 0;
    }
    const char* const engine = of_torch == 0 ? "native" : of_torch == part.nodes.size() ? "torch" : "both";
    std::printf("%4d  %-6s  %-10s  %-10s  %-10s %s\n", part.place, engine, reef::format_bytes(part.parameter_bytes).c_str(),
                reef::format_bytes(part.forward.received() + part.backward.received()).c_str(),
                reef::format_bytes(part.forward.sent() + part.backward.sent()).c_str(), nodes.c_str());
  }
}

/// What this rank has sent over links, and what the same numbers take in memory.
std::string text_of(const reef::run::LinkTable& step) {
  std::string text;
  for (const auto& [link, use] : step.uses) {
    if (use.wire() == 0 || !reef::schedule::is_between_stages(link.traffic)) continue;
    text += reef::concat("a step sends ", link.text(), " ", use.wire(), " bytes for ", use.raw, " of ",
                         reef::schedule::name_of(link.traffic), "s\n");
  }
  return text;
}

MyTrainer::Options options_of(const Settings& settings) {
  MyTrainer::Options options;
  options.topology = reef::run::Topology(1, ranks);
  options.micro_batches = {micro_batches};
  options.seed = settings.seed;
  options.learning_rate = {.peak = 0.01, .warmup = 5, .steps = settings.steps};
  options.device.threads = 1;

  const double fast = 1e6 / 8 * settings.fast, slow = 1e6 / 8 * settings.slow;
  const std::vector<double> rates{fast, fast, fast, fast, fast, slow, fast, slow, fast};  // of ranks, to ranks
  const std::vector<double> latencies(rates.size(), 1e-3);
  options.communication.network = reef::comm::NetworkShape(ranks, latencies, rates);

  auto& compress = options.compress;
  compress.activation.ratio = settings.ratio;
  compress.network = reef::schedule::World::uniform(ranks, {}, {});
  for (std::size_t l = 0; l < rates.size(); ++l) compress.network->links[l] = {latencies[l], rates[l]};
  if (settings.compress == "dense") compress.choose = [](const auto&) { return 1.0; };
  if (settings.compress == "uniform") {
    // As AdaTopK on the slowest link: with an index of 2 bytes a number takes 6. What comes back has the zeros of what went.
    compress.choose = [ratio = 1.5 * settings.ratio](const reef::compress::Carried& carried) {
      return carried.traffic == reef::schedule::Traffic::activation ? std::optional(ratio) : std::nullopt;
    };
  }
  return options;
}

void train(const Settings& settings) {
  MyTrainer::Options options = options_of(settings);
  ResidualNetwork network = residual_network(settings.seed, options.cuts);
  if (settings.gflops > 0) {
    options.profile = reef::graph::estimate(network.dag(), 1e9 * settings.gflops);
    options.paced = true;
  }
  const auto images_from = [](std::uint64_t number) {
    return [number](std::uint64_t first, std::span<const reef::AnyView> inputs) { return fill(number + first, inputs); };
  };
  constexpr std::uint64_t unseen = std::uint64_t{1} << 31;  // a generator takes 32 bits
  MyTrainer trainer(std::move(network), images_from(1'000'000 * settings.seed), options, images_from(unseen));
  const bool speaks = trainer.rank() == 0;
  if (speaks) print_parts(trainer);

  double seconds = 0;
  reef::run::LinkTable last;
  for (int step = 1; step <= settings.steps; ++step) {
    const reef::run::LinkTable before = trainer.links();
    const reef::StepResult result = trainer.step();
    last = trainer.links() - before;
    seconds += result.seconds;
    if (step != 1 && step != settings.steps && step % settings.every != 0) continue;
    const double held_out = trainer.evaluate(4);
    if (speaks) std::printf("step %3d  loss %.4f  held out %.4f  after %.2f s\n", step, result.loss, held_out, seconds);
  }
  for (const std::string& text : reef::comm::gather_texts(trainer.progress(), "links", text_of(last))) std::fputs(text.c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  const reef::comm::Environment mpi(argc, argv);
  Settings settings;
  CLI::App app("A residual network over three ranks, of libtorch's operators and of native ones.");
  app.option_defaults()->always_capture_default();
  app.add_option("--compress", settings.compress, "dense, uniform (one ratio for all links) or adaptive (AdaTopK)")
      ->check(CLI::IsMember({"dense", "uniform", "adaptive"}));
  app.add_option("--ratio", settings.ratio, "how many times fewer bytes the slow link is planned to carry")->check(number_from<double>(1, 1e4));
  app.add_option("--fast", settings.fast, "Mbit/s of all links but one")->check(number_from<double>(1e-3, 1e6));
  app.add_option("--slow", settings.slow, "Mbit/s of the link between ranks 1 and 2")->check(number_from<double>(1e-3, 1e6));
  app.add_option("--gflops", settings.gflops, "emulates devices of so many GFLOP/s; 0: as fast as the cores are")
      ->check(number_from<double>(0, 1e6));
  app.add_option("--steps", settings.steps, "optimizer steps, of 32 images")->check(number_from<int>(1, 10'000));
  app.add_option("--every", settings.every, "steps between evaluations")->check(number_from<int>(1, 10'000));
  app.add_option("--seed", settings.seed, "of weights and images")->check(number_from<std::uint64_t>(0, 2000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return reef::comm::Communicator().rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
  torch::set_num_threads(1);
  train(settings);
} catch (const std::exception& error) {
  return reef::comm::report_failure("torch-residual", error);
}
