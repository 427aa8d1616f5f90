// Purpose  A residual network over three ranks: two run its convolutions in libtorch, the last one native operators alone,
//          behind a slow link that AdaTopK compresses. It learns the angle of stripes in images that it makes.
// Command  mpiexec -n 3 build/release/examples/torch-residual
// Output   rank  engine  parameters  receives    sends       nodes; messages of a micro-batch, before they are compressed
//             0  torch   20.06 KiB   512.00 KiB  512.00 KiB  stem block.0
//             1  torch   129.25 KiB  576.00 KiB  576.00 KiB  block.1 block.2 pool
//             2  native  530.79 KiB  64.00 KiB   64.00 KiB   norm hidden gelu head loss
//          step   1  loss 2.3081  held out 2.3064    9.4 % right  after 0.25 s
//          step  20  loss 0.7325  held out 0.8591   68.0 % right  after 3.90 s
//          step  40  loss 0.3203  held out 0.3722   89.1 % right  after 7.66 s
//          in one process, nothing compressed  held out 0.4947   86.3 % right
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
// prints: in one process, nothing compressed  held out 0.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <torch/torch.h>

#include <reef/codec/top_k.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/environment.hpp>
#include <reef/comm/gather.hpp>
#include <reef/compress/ada_top_k.hpp>
#include <reef/compress/channels.hpp>
#include <reef/core/error.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/sub_dags.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/torch/module.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/number_option.hpp"
#include "support/progress.hpp"
#include "support/residual_network.hpp"
#include "support/whole_model.hpp"

namespace {

using namespace reef_examples;

/// As FusionLLM selects: what goes back between ranks by its own size, where AdaTopK gives it the zeros of what went forward.
using SelectsAnew =
    reef::compress::Channels<reef::compress::Activation<reef::codec::TopK>, reef::compress::ActivationGradient<reef::codec::TopK>>;

template <class Compress>
using TrainerWith = reef::Trainer<reef::pipeline::OneFOneB<>, Compress, reef::optim::Ddp<reef::optim::AdamW>>;

constexpr int ranks = 3, micro_batches = 4;

/// Of the command line: main() says what they are.
struct Settings {
  std::string compress = "adaptive";
  bool anew = false;
  double ratio = 10, fast = 10'000, slow = 2, gflops = 0;
  int steps = 40, every = 20, rounds = 8;
  std::uint64_t seed = 1;
};

/// Who computes what, in which engine, and what goes between ranks.
void print_parts(const reef::run::StepPlan& plan) {
  const reef::graph::Dag& dag = *plan.dag;
  std::vector<int> rank_of_node;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    rank_of_node.resize(static_cast<std::size_t>(plan.segments[s].last), plan.stage_of_segment[s]);
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

template <class Compress>
typename TrainerWith<Compress>::Options options_of(const Settings& settings) {
  typename TrainerWith<Compress>::Options options;
  options.topology = reef::run::Topology(1, ranks);
  options.micro_batches = {micro_batches};
  options.seed = settings.seed;
  options.learning_rate = {.peak = 0.01, .warmup = 5, .steps = settings.steps};
  options.device.threads = 1;

  const double fast = 1e6 / 8 * settings.fast, slow = 1e6 / 8 * settings.slow;
  const std::vector<double> rates{fast, fast, fast, fast, fast, slow, fast, slow, fast};  // of ranks, to ranks
  const std::vector<double> latencies(rates.size(), 1e-3);
  options.network = options.communication.network = reef::profile::Network{.devices = ranks, .latencies = latencies, .rates = rates};

  constexpr bool anew = std::is_same_v<Compress, SelectsAnew>;
  auto& compress = options.compress;
  compress.activation.ratio = settings.ratio;
  if constexpr (anew) compress.activation_gradient.ratio = settings.ratio;
  compress.adapt = true;
  if (settings.compress == "dense") compress.choose = [](const auto&) { return 1.0; };
  if (settings.compress == "uniform") {
    // As on the slowest link: with an index of 2 bytes a number takes 6.
    compress.choose = [ratio = 1.5 * settings.ratio](const reef::compress::CodedMessages& messages) {
      return anew || messages.traffic == reef::schedule::Traffic::activation ? std::optional(ratio) : std::nullopt;
    };
  }
  return options;
}

/// The number of right answers since it was last asked for, in percent of `of`. All ranks call it.
double percent_right(reef::comm::Progress& progress, std::atomic<int>& right, int of) {
  const std::vector<int> counts = reef::comm::gather_numbers(progress, "right answers", right.exchange(0));
  return 100.0 * std::accumulate(counts.begin(), counts.end(), 0) / of;
}

template <class Compress>
void train(const Settings& settings) {
  if (const int there = reef::comm::Communicator().size(); there != ranks) {
    throw reef::OptionError("there are ", there, " ranks, and the network is in ", ranks, " parts.\n  fix: mpiexec -n ", ranks, ".");
  }
  auto options = options_of<Compress>(settings);
  auto [graph, cuts, right] = residual_network(settings.seed);
  options.cuts = cuts;
  if (settings.gflops > 0) {
    options.profile = reef::graph::estimate(graph.dag(), 1e9 * settings.gflops);
    options.paced = true;
  }
  const auto images_from = [](std::uint64_t number) {
    return [number](std::uint64_t first, std::span<const reef::AnyView> inputs) { return fill(number + first, inputs); };
  };
  const reef::run::Source unseen = images_from(std::uint64_t{1} << 31);  // a generator takes 32 bits
  TrainerWith<Compress> trainer(std::move(graph), images_from(1'000'000 * settings.seed), options, unseen);
  const bool speaks = trainer.rank() == 0;
  if (speaks) print_parts(trainer.plan());

  const int judged = settings.rounds * micro_batches * images;
  Progress progress;
  Standing standing{.steps = settings.steps};
  const auto say_round = [&](std::int64_t done) {
    if (speaks) progress.show(reef::concat("evaluates: ", done, " of ", settings.rounds, " rounds"));
    return true;
  };
  reef::run::LinkTable last;
  for (int step = 1; step <= settings.steps; ++step) {
    const reef::run::LinkTable before = trainer.links();
    const reef::StepResult result = trainer.step();
    last = trainer.links() - before;
    standing.step = step;
    standing.seconds += result.seconds;
    if (step == 1) standing.first = result.seconds;
    if (step == 1 || step == settings.steps || step % settings.every == 0) {
      const double loss = trainer.evaluate(settings.rounds, say_round), percent = percent_right(trainer.progress(), *right, judged);
      if (speaks) {
        std::printf("step %3d  loss %.4f  held out %.4f  %5.1f %% right  after %.2f s\n", step, result.loss, loss, percent,
                    standing.seconds);
        std::fflush(stdout);
      }
    } else if (speaks && seconds_left(standing) >= 0) {
      progress.show(reef::concat("step ", step, "/", settings.steps, "  ", clock_text(seconds_left(standing)), " left"));
    }
  }
  const double loss = loss_in_one_process(trainer, unseen, settings.rounds * micro_batches);
  const double percent = percent_right(trainer.progress(), *right, judged);
  if (speaks) std::printf("in one process, nothing compressed  held out %.4f  %5.1f %% right\n", loss, percent);
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
  app.add_flag("--anew", settings.anew,
               "what goes back is selected by its own size, as FusionLLM does; else it has the zeros of what went forward");
  app.add_option("--ratio", settings.ratio,
                 "how many times fewer bytes the slow link is planned to carry, uniform or adaptive")
      ->check(number_from<double>(1, 1e4));
  app.add_option("--fast", settings.fast, "Mbit/s of all links but one")->check(number_from<double>(1e-3, 1e6));
  app.add_option("--slow", settings.slow, "Mbit/s of the link between ranks 1 and 2")->check(number_from<double>(1e-3, 1e6));
  app.add_option("--gflops", settings.gflops, "emulates devices of so many GFLOP/s; 0: as fast as the cores are")
      ->check(number_from<double>(0, 1e6));
  app.add_option("--steps", settings.steps, "optimizer steps, of 32 images")->check(number_from<int>(1, 10'000));
  app.add_option("--every", settings.every, "steps between evaluations")->check(number_from<int>(1, 10'000));
  app.add_option("--held-out", settings.rounds, "rounds of 32 images of an evaluation")->check(number_from<int>(1, 1000));
  app.add_option("--seed", settings.seed, "of weights and images")->check(number_from<std::uint64_t>(0, 2000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return reef::comm::Communicator().rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
  torch::set_num_threads(1);
  settings.anew ? train<SelectsAnew>(settings) : train<reef::compress::AdaTopK>(settings);
} catch (const std::exception& error) {
  return reef::comm::report_failure("torch-residual", error);
}
