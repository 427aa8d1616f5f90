// What the trace costs a training: a step with a sink against a step without, and the bits of both.
//
//   mpiexec -n 2 build/release/bench/trace_step_bench     (or -n 1)
//
// Two trainers of one GPT, alike but for the sink, take turns, a step each; who is first changes from
// round to round. The roof is the step without: of_roof is the median over rounds of plain over traced,
// with the quarters of its distribution. A second pair, both plain, says what the method itself tells
// apart. The sink is collected after each step, in the timed part, as a program that shows figures does.
// It fails where the two do not come to the same bits.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/data/sampler.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trace/sink.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/ranks.hpp"

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

  /// Seconds that the slowest rank took for a step.
  Seconds step() {
    const Seconds begin = trace::now();
    loss = trainer->step().loss;
    recording.spans.clear();
    spans += sink.collect(recording).size();
    const auto all = comm::gather_numbers(trainer->progress(), "seconds", trace::now() - begin);
    return *std::max_element(all.begin(), all.end());
  }

  trace::Sink sink;
  trace::Recording recording;
  std::unique_ptr<Tested> trainer;
  double loss = 0;
  std::size_t spans = 0;
};

void check_bits(const Side& a, const Side& b) {
  bool same = a.loss == b.loss;
  for (const graph::Parameter& parameter : a.trainer->model().dag().parameters) {
    same = same && a.trainer->parameter(parameter.name) == b.trainer->parameter(parameter.name);
  }
  if (!same) throw Error("trace_step_bench: the two trainers do not come to the same bits.");
}

void bench(benchmark::State& state, bool traced) {
  const comm::Communicator ranks;
  Side plain(ranks, false);
  Side other(ranks, traced);
  for (int i = 0; i < 2; ++i) {
    plain.step();
    other.step();
  }
  other.spans = 0;
  std::vector<double> plain_seconds;
  std::vector<double> seconds;
  reef_bench::compare(state, [&] { return seconds.emplace_back(other.step()); },
                      {{"roof", [&] { return plain_seconds.emplace_back(plain.step()); }}}, {});
  check_bits(plain, other);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < seconds.size(); ++i) ratios.push_back(plain_seconds[i] / seconds[i]);
  state.counters["of_roof_quarter"] = quantile(ratios, 0.25);
  state.counters["of_roof_three_quarters"] = quantile(ratios, 0.75);
  state.counters["spans_a_step"] =
      static_cast<double>(other.spans) / static_cast<double>(seconds.size());
}

void register_all() {
  reef_bench::add("step/traced", 400, [](benchmark::State& state) { bench(state, true); });
  reef_bench::add("step/plain", 400, [](benchmark::State& state) { bench(state, false); });
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::run_on_ranks(argc, argv, register_all, {.least = 1});
}
