// Purpose  A residual network over three ranks: two run its convolutions in libtorch, the last one native operators alone,
//          behind a slow link that AdaTopK compresses. It learns the angle of stripes in images that it makes.
// Command  mpiexec -n 3 build/release/examples/torch-residual --compress adaptive --ratio 10 --steps 100
// Output   (below: to be filled)
// links: reef::compiled reef::torch
// ranks: 3
// arguments: --steps 12
// prints:  torch
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <torch/torch.h>

#include <reef/comm/environment.hpp>
#include <reef/comm/gather.hpp>
#include <reef/compress/ada_top_k.hpp>
#include <reef/graph/sub_dags.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/torch/module.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/number_option.hpp"

namespace {

namespace nn = reef::nn;
using reef::torch::Module;
using MyTrainer = reef::Trainer<reef::pipeline::OneFOneB<>, reef::compress::AdaTopK, reef::optim::Ddp<reef::optim::AdamW>>;

constexpr int ranks = 3, images = 16, micro_batches = 4, classes = 10;

struct Settings {
  std::string compress = "adaptive";  // or dense, uniform
  double ratio = 10;                  // numbers by numbers sent: of all links, or of the slowest
  double slow_mbits = 8;              // of the link between ranks 1 and 2; that between 0 and 1 has 1000
  int steps = 100, every = 20;
  std::uint64_t seed = 1;
};

/// 3 x 3, without a bias, and batch norm of what is in the micro-batch.
torch::nn::Sequential convolution(int in, int out, int stride = 1, int size = 3) {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false)),
                    BatchNorm2d(BatchNorm2dOptions(out).track_running_stats(false)));
}

/// y = relu(short(x) + norm(conv(relu(norm(conv(x)))))); short(x) = x, or a convolution of 1 x 1 where the shape changes.
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(int in, int out, int stride) : first(convolution(in, out, stride)), second(convolution(out, out)) {
    register_module("first", first);
    register_module("second", second);
    if (in != out || stride != 1) shortcut = register_module("shortcut", convolution(in, out, stride, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::relu((shortcut ? shortcut->forward(x) : x) + second->forward(torch::relu(first->forward(x))));
  }
  torch::nn::Sequential first, second, shortcut{nullptr};
};
TORCH_MODULE(ResidualBlock);

/// (B, 3, 32, 32) to (B, 10). The nodes "block.1" and "norm" begin what ranks 1 and 2 have.
MyTrainer::Model residual_network(std::uint64_t seed, std::vector<int>& cuts) {
  torch::manual_seed(seed);  // the same on all ranks
  MyTrainer::Model g(1);
  const int x = g.input("images", {{images, 3, 32, 32}, reef::Element::float32});
  const int labels = g.input("labels", {{images}, reef::Element::int32});
  const auto apply = [&g](const char* name, auto op, int in) { return g.add(name, std::move(op), {in})[0]; };
  torch::nn::Sequential stem = convolution(3, 16);
  stem->push_back(torch::nn::ReLU());
  int y = apply("stem", Module(stem), x);
  y = apply("block.0", Module(ResidualBlock(16, 16, 1)), y);  // (B, 16, 32, 32)
  cuts = {g.dag().node_count()};
  y = apply("block.1", Module(ResidualBlock(16, 32, 2)), y);  // (B, 32, 16, 16)
  y = apply("block.2", Module(ResidualBlock(32, 32, 1)), y);
  y = apply("pool", Module(torch::nn::Sequential(torch::nn::AvgPool2d(2), torch::nn::Flatten())), y);  // (B, 2048)
  cuts.push_back(g.dag().node_count());
  y = apply("norm", nn::LayerNorm{}, y);
  y = apply("hidden", nn::Linear{.features = 64}, y);
  y = apply("gelu", nn::Gelu{}, y);
  y = apply("head", nn::Linear{.features = classes}, y);
  g.loss(g.add("loss", nn::CrossEntropy{}, {y, labels})[0]);
  return g;
}

/// Image n: stripes of its class's angle in a random colour, beginning anywhere, so that the mean of each class is grey, and
/// noise. No sum of pixels tells classes apart.
double fill(std::uint64_t first, std::span<const reef::AnyView> inputs) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor batch = torch::from_blob(inputs[0].as<float>().data(), {images, 3, 32, 32});
  const torch::Tensor place = torch::arange(32, torch::kFloat);
  for (int i = 0; i < images; ++i) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(i);
    const int label = static_cast<int>(number % classes);
    at::Generator random = at::make_generator<at::CPUGeneratorImpl>(number);
    const double angle = std::numbers::pi * label / classes;
    const torch::Tensor shift = torch::rand({1}, random) * (2 * std::numbers::pi), colour = torch::randn({3, 1, 1}, random);
    const torch::Tensor stripes = torch::sin(0.8 * (std::cos(angle) * place + std::sin(angle) * place.view({32, 1})) + shift);
    batch[i].copy_(colour * stripes + 2 * torch::randn({3, 32, 32}, random));
    inputs[1].as<std::int32_t>().data()[i] = label;
  }
  return 1;
}

/// Who computes what, of which engine, and what goes between ranks for a micro-batch.
void print_parts(const MyTrainer& trainer) {
  const reef::graph::Dag& dag = *trainer.plan().dag;
  std::vector<int> rank_of_node;
  for (std::size_t s = 0; s < trainer.plan().segments.size(); ++s) {
    rank_of_node.resize(static_cast<std::size_t>(trainer.plan().segments[s].last), trainer.plan().stage_of_segment[s]);
  }
  std::printf("rank  engine  parameters  receives    sends       nodes\n");
  for (const reef::graph::SubDag& part : reef::graph::sub_dags(dag, rank_of_node, ranks)) {
    std::string nodes;
    std::size_t of_torch = 0;
    for (const int n : part.nodes) {
      nodes += " " + dag.node_at(n).name;
      of_torch += dag.node_at(n).kind == Module::kind ? 1 : 0;
    }
    const char* const engine = of_torch == 0 ? "native" : of_torch == part.nodes.size() ? "torch" : "both";
    std::printf("%4d  %-6s  %-10s  %-10s  %-10s %s\n", part.place, engine, reef::format_bytes(part.parameter_bytes).c_str(),
                reef::format_bytes(part.forward.received() + part.backward.received()).c_str(),
                reef::format_bytes(part.forward.sent() + part.backward.sent()).c_str(), nodes.c_str());
  }
}

void train(const Settings& settings) {
  MyTrainer::Options options;
  MyTrainer::Model network = residual_network(settings.seed, options.cuts);
  options.topology = reef::run::Topology(1, ranks);
  options.micro_batches = {micro_batches};
  options.seed = settings.seed;
  options.learning_rate = {.peak = 3e-3, .warmup = 5, .steps = settings.steps};
  options.device.threads = 1;

  const double fast = 1000 * 1e6 / 8, slow = settings.slow_mbits * 1e6 / 8;
  const std::vector<double> rates{fast, fast, fast, fast, fast, slow, fast, slow, fast};  // from rank, to rank
  options.communication.network = reef::comm::NetworkShape(ranks, std::vector<double>(rates.size(), 1e-3), rates);
  options.compress.network = reef::schedule::World::uniform(ranks, {}, {});
  for (std::size_t l = 0; l < rates.size(); ++l) options.compress.network->links[l] = {1e-3, rates[l]};
  options.compress.activation.ratio = settings.ratio;
  if (settings.compress != "adaptive") {
    options.compress.choose = [&settings](const reef::compress::Carried& carried) -> std::optional<double> {
      if (settings.compress == "dense") return 1;
      return carried.traffic == reef::schedule::Traffic::activation ? std::optional(settings.ratio) : std::nullopt;
    };
  }

  constexpr std::uint64_t unseen = std::uint64_t{1} << 31;  // a generator takes 32 bits
  const auto held_out = [](std::uint64_t first, std::span<const reef::AnyView> inputs) { return fill(unseen + first, inputs); };
  const auto source = [first_image = 1'000'000 * settings.seed](std::uint64_t first, std::span<const reef::AnyView> inputs) {
    return fill(first_image + first, inputs);
  };
  MyTrainer trainer(std::move(network), source, options, held_out);
  if (trainer.rank() == 0) print_parts(trainer);
  std::vector<double> seconds;
  double all = 0;
  for (int step = 1; step <= settings.steps; ++step) {
    const reef::StepResult result = trainer.step();
    seconds.push_back(result.seconds);
    all += result.seconds;
    if (step != 1 && step != settings.steps && step % settings.every != 0) continue;
    const double loss = trainer.evaluate(4);
    if (trainer.rank() == 0) std::printf("step %4d  loss %.4f  held out %.4f  after %.1f s\n", step, result.loss, loss, all);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const reef::comm::Environment mpi(argc, argv);
  Settings settings;
  CLI::App app("A residual network over 3 ranks, of libtorch's and of native operators");
  app.add_option("--compress", settings.compress)->check(CLI::IsMember({"dense", "uniform", "adaptive"}))->capture_default_str();
  app.add_option("--ratio", settings.ratio)->capture_default_str();
  app.add_option("--slow-mbits", settings.slow_mbits)->capture_default_str();
  app.add_option("--steps", settings.steps)->capture_default_str();
  app.add_option("--every", settings.every)->capture_default_str();
  app.add_option("--seed", settings.seed)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  train(settings);
} catch (const std::exception& error) {
  return reef::comm::report_failure("torch-residual", error);
}
