// What encoded messages cost in loss, and save in bytes and time: one small model, every codec on the same samples.
//
//   mpiexec -n 2 build/release/bench/compress_frontier_bench CORPUS CHANNEL CODEC SEED STEPS [BYTES_PER_SECOND [SLOWDOWN]]
//
// frontier.py starts it, and makes a table and a plot of what it prints: lines of JSON. Model, data and learning rate are those
// of optim/convergence_bench.cpp.
//
//     CHANNEL             gradients           Zero1 on replicas
//                         activations         1F1B on stages: they and their gradients
//                         adapted             the same; ratios follow links, of which the last is ten times slower (AdaTopK)
//                         pseudo-gradients    DiLoCo's differences of 20 steps, an outer step of rate 1 by the number of senders
//     CODEC               codec::Chosen's text; of pseudo-gradients none is DiLoCo as it is published. Of activations one-mask+CODEC:
//                         their gradients have the zeros of what went forward, and go as they are
//     BYTES_PER_SECOND    of each link, emulated; 0: as fast as they are
//     SLOWDOWN            of the device, which sleeps for the rest: so that a micro-batch is longer than a wake-up

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/codec/chosen.hpp>
#include <reef/codec/dense.hpp>
#include <reef/compress/channels.hpp>
#include <reef/core/error.hpp>
#include <reef/data/sampler.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trainer/trainer.hpp>

#include "optim/small_model.hpp"
#include "support/measure.hpp"
#include "support/ranks_main.hpp"

namespace {

using namespace reef_bench;
using reef::codec::Chosen;
using reef::profile::Network;
namespace compress = reef::compress;
namespace optim = reef::optim;

constexpr int micro_batches_of_step = 16;
constexpr int outer_steps = 20;
constexpr double latency = 1e-3;

struct Run {
  std::string corpus, channel;
  bool one_mask = false;
  Chosen codec;
  std::uint64_t seed = 1;
  std::int64_t steps = 1000;
  double bytes_per_second = 0;
  double slowdown = 1;
};

/// The links, if they are to be emulated; `uneven`: between the last two ranks a tenth of the rate.
Network links_of(const Run& run, int ranks, bool uneven) {
  if (run.bytes_per_second <= 0) return {};
  Network links = Network::uniform(ranks, latency, run.bytes_per_second);
  const auto cell = [&](int from, int to) { return static_cast<std::size_t>(from * ranks + to); };
  if (uneven && ranks > 1) {
    links.rates[cell(ranks - 2, ranks - 1)] = links.rates[cell(ranks - 1, ranks - 2)] = run.bytes_per_second / 10;
  }
  return links;
}

/// Trains, and prints the held-out loss as it falls, what rank 0 has sent in steps, and the median time of a step.
template <class TrainerType>
void train(const Run& run, typename TrainerType::Options options, bool stages) {
  const Text text(run.corpus);
  const reef::comm::Communicator world;
  if (micro_batches_of_step % world.size() != 0) {
    throw reef::OptionError("compress_frontier_bench: ", micro_batches_of_step, " micro-batches over ", world.size(),
                            " ranks.\n  fix: 1, 2, 4, 8 or 16 ranks.");
  }
  options.micro_batches = {stages ? micro_batches_of_step : micro_batches_of_step / world.size()};
  if (stages) options.topology = reef::run::Topology(1, world.size());
  options.seed = run.seed;
  options.clip_norm = 0;
  options.learning_rate = {.peak = 3e-3, .warmup = 20, .steps = run.steps};
  options.bucket_bytes = 64 << 10;
  options.device.threads = 1;
  options.device.slowdown = run.slowdown;
  const auto source = [sampler = reef::data::Sampler(text.training, context, run.seed)](
                          std::uint64_t first, std::span<const reef::AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
  const reef::data::Validation windows(text.held_out, context);
  const auto held_out = [windows](std::uint64_t first, std::span<const reef::AnyView> inputs) {
    return static_cast<double>(windows.fill(static_cast<std::int64_t>(first), inputs));
  };
  TrainerType trainer(small_model(text.vocabulary, true), source, std::move(options), held_out, world);
  const auto sent_so_far = [&] {
    const reef::comm::Cost cost = trainer.progress().meter().operations();
    return cost.bytes + cost.window_bytes;
  };
  const std::int64_t in_round = trainer.plan().micro_batches_in_all() * batch;
  const auto rounds = static_cast<int>((windows.windows() + in_round - 1) / in_round);
  reef::Bytes sent = 0;
  std::vector<double> seconds;
  for (std::int64_t step = 0; step <= run.steps; ++step) {
    const reef::Bytes before = sent_so_far();
    if (step > 0) seconds.push_back(seconds_of([&] { trainer.step(); }));
    sent += sent_so_far() - before;
    if (step % 100 != 0 && step != run.steps) continue;
    const double loss = trainer.evaluate(rounds);
    if (world.rank() == 0) {
      std::printf("{\"step\": %lld, \"held_out\": %.6f}\n", static_cast<long long>(step), loss);
    }
  }
  if (world.rank() == 0 && !seconds.empty()) {
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);  // not every step of DiLoCo communicates
    std::printf("{\"parameters\": %lld, \"sent_bytes\": %llu, \"median_s\": %.6f, \"mean_s\": %.6f}\n",
                static_cast<long long>(trainer.model().dag().parameter_count()), static_cast<unsigned long long>(sent),
                median(seconds), all / static_cast<double>(seconds.size()));
  }
}

void run_gradients(const Run& run) {
  using Tested = reef::Trainer<optim::Zero1<optim::AdamW>, compress::Channels<compress::Gradient<Chosen>>>;
  Tested::Options options;
  options.compress.gradient = run.codec;
  options.communication.network = links_of(run, reef::comm::Communicator().size(), false);
  train<Tested>(run, std::move(options), false);
}

void run_activations(const Run& run, bool adapts) {
  using Codecs = compress::Channels<compress::Activation<Chosen>, compress::ActivationGradient<Chosen>>;
  using Tested = reef::Trainer<reef::pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, Codecs>;
  const int ranks = reef::comm::Communicator().size();
  Tested::Options options;
  options.compress.activation = options.compress.activation_gradient = run.codec;
  if (run.one_mask) {
    options.compress.one_mask = true;
    options.compress.activation_gradient = Chosen(reef::codec::Dense{});
  }
  const bool uneven = run.channel != "activations";
  options.communication.network = links_of(run, ranks, uneven);
  if (adapts && !options.communication.network.empty()) {
    options.network = options.communication.network;
    options.compress.adapt = true;
  }
  train<Tested>(run, std::move(options), true);
}

void run_differences(const Run& run) {
  if (!run.codec) {
    using Tested = reef::Trainer<optim::DiLoCo<optim::AdamW>>;
    Tested::Options options;
    options.optim.every = outer_steps;
    options.communication.network = links_of(run, reef::comm::Communicator().size(), false);
    return train<Tested>(run, std::move(options), false);
  }
  using Outer = optim::DiLoCo<optim::AdamW, optim::Sgd>;
  using Tested = reef::Trainer<Outer, compress::Channels<compress::PseudoGradient<Chosen>>>;
  Tested::Options options;
  options.optim.every = outer_steps;
  options.optim.outer_learning_rate = 1;
  options.optim.divisor = Outer::Divisor::senders;
  options.compress.pseudo_gradient = run.codec;
  options.communication.network = links_of(run, reef::comm::Communicator().size(), false);
  train<Tested>(run, std::move(options), false);
}

void start(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5 || arguments.size() > 7) {
    throw reef::OptionError(
        "usage: compress_frontier_bench CORPUS CHANNEL CODEC SEED STEPS [BYTES_PER_SECOND [SLOWDOWN]]");
  }
  constexpr std::string_view masked = "one-mask+";
  const bool one_mask = arguments[2].starts_with(masked);
  Run run{arguments[0], arguments[1], one_mask, Chosen::of(arguments[2].substr(one_mask ? masked.size() : 0)),
          std::strtoull(arguments[3].c_str(), nullptr, 10), std::atoll(arguments[4].c_str())};
  if (arguments.size() > 5) run.bytes_per_second = std::atof(arguments[5].c_str());
  if (arguments.size() > 6) run.slowdown = std::atof(arguments[6].c_str());
  if (run.channel == "gradients") return run_gradients(run);
  if (run.channel == "activations" || run.channel == "uneven") return run_activations(run, false);
  if (run.channel == "adapted") return run_activations(run, true);
  if (run.channel == "pseudo-gradients") return run_differences(run);
  throw reef::OptionError("compress_frontier_bench: there is no channel '", run.channel,
                          "'.\n  fix: gradients, activations, uneven, adapted or pseudo-gradients.");
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "compress_frontier_bench", start);
}
