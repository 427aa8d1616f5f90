// What the trace costs a training: a step with a sink against a step without, and the bits of both.
//
//   mpiexec -n 2 build/release/bench/trace_step_bench [--rounds N] [--steps N] > RESULT.json
//
// Two trainers of one GPT, alike but for the sink, take turns: so many steps of the one, of the
// other, who is first changing from round to round. The ratio of a round is its traced steps over its
// plain ones; what is printed is the median of these ratios, with the quarters of their distribution.
// A second pair, both plain, says what the method itself tells apart. The sink is collected after
// each step, in the timed part, as a program that shows figures does.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/comm/gather.hpp>
#include <reef/data/sampler.hpp>
#include <reef/device/host.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trace/sink.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/measure.hpp"

namespace {

using namespace reef;
using reef_bench::quantile;
using Tested = Trainer<optim::Zero1<optim::AdamW>>;

const std::vector<std::uint8_t>& text() {
  static const std::vector<std::uint8_t> tokens = [] {
    std::vector<std::uint8_t> made(1 << 16);
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = static_cast<std::uint8_t>(random_bits({5, 0, 0, 0}, i) % 96);
    }
    return made;
  }();
  return tokens;
}

/// A trainer, and where it leaves what it does, if it has a sink.
struct Side {
  explicit Side(const comm::Communicator& ranks, bool traced) : sink(ranks.rank()) {
    nn::GptConfig config;
    config.vocabulary = 96;
    config.layers = 4;
    config.heads = 4;
    config.channels = 128;
    config.context = 128;
    config.batch = 2;
    Tested::Options options;
    options.device.threads = 1;
    options.learning_rate = {.peak = 1e-3, .warmup = 10, .steps = 1'000'000};
    options.micro_batches = {2};
    options.trace = traced ? &sink : nullptr;
    const run::Source source = [sampler = data::Sampler(text(), config.context, 3)](
                                   std::uint64_t first, std::span<const AnyView> inputs) {
      sampler.fill(first, inputs);
      return 1.0;
    };
    trainer = std::make_unique<Tested>(nn::gpt<device::Host, float>(config, 1), source, options,
                                       source, ranks);
  }

  /// Seconds that the slowest rank took, and the loss of the last step.
  Seconds run(int steps) {
    const Seconds begin = trace::now();
    for (int i = 0; i < steps; ++i) {
      loss = trainer->step().loss;
      recording.spans.clear();
      spans += sink.collect(recording).size();
    }
    const auto all = comm::gather_numbers(trainer->progress(), "seconds", trace::now() - begin);
    return *std::max_element(all.begin(), all.end());
  }

  trace::Sink sink;
  trace::Recording recording;
  std::unique_ptr<Tested> trainer;
  double loss = 0;
  std::size_t spans = 0;
};

struct Figures {
  std::vector<double> ratios;
  std::vector<double> plain;  // seconds a step
  double spans_per_step = 0;
  bool same_bits = true;
};

Figures compare(const comm::Communicator& ranks, bool traced, int rounds, int steps) {
  Side plain(ranks, false);
  Side other(ranks, traced);
  plain.run(3);
  other.run(3);
  other.spans = 0;
  Figures figures;
  for (int round = 0; round < rounds; ++round) {
    Seconds a = 0;
    Seconds b = 0;
    if (round % 2 == 0) a = plain.run(steps);
    b = other.run(steps);
    if (round % 2 == 1) a = plain.run(steps);
    figures.ratios.push_back(b / a);
    figures.plain.push_back(a / steps);
    figures.same_bits = figures.same_bits && plain.loss == other.loss;
  }
  for (const graph::Parameter& parameter : plain.trainer->model().dag().parameters) {
    figures.same_bits = figures.same_bits && plain.trainer->parameter(parameter.name) ==
                                                 other.trainer->parameter(parameter.name);
  }
  figures.spans_per_step = static_cast<double>(other.spans) / rounds / steps;
  return figures;
}

io::Json line(const Figures& figures, const char* what, int ranks, int rounds, int steps) {
  return {{"name", what},
          {"ranks", ranks},
          {"rounds", rounds},
          {"steps_a_round", steps},
          {"spans_a_step", figures.spans_per_step},
          {"plain_ms_a_step", 1e3 * quantile(figures.plain, 0.5)},
          {"ratio_median", quantile(figures.ratios, 0.5)},
          {"ratio_quarter", quantile(figures.ratios, 0.25)},
          {"ratio_three_quarters", quantile(figures.ratios, 0.75)},
          {"same_bits", figures.same_bits}};
}

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment environment(argc, argv);
  const comm::Communicator ranks;
  int rounds = 400;
  int steps = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    (option == "--rounds" ? rounds : steps) = std::max(1, std::atoi(argv[i + 1]));
  }
  bool same_bits = true;
  for (const bool traced : {true, false}) {
    const Figures figures = compare(ranks, traced, rounds, steps);
    same_bits = same_bits && figures.same_bits;
    if (ranks.rank() != 0) continue;
    const char* what = traced ? "step_traced_over_plain" : "step_plain_over_plain";
    std::printf("%s\n", line(figures, what, ranks.size(), rounds, steps).dump().c_str());
    std::fflush(stdout);
  }
  return same_bits ? 0 : 1;
}
