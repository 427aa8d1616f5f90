// A rank that computes several times as slowly as the others: whom it delays, and whose text is learnt.
//
//   mpiexec --bind-to core -n 2 build/release/bench/optim_uneven_bench time SLOWDOWN STEPS RECIPE:B...
//   mpiexec --bind-to core -n 2 build/release/bench/optim_uneven_bench train CORPUS SLOWDOWN SAMPLES SEED
//       PARTS RECIPE:B
//
// uneven.py starts it, and makes tables of what it prints: lines of JSON. row.hpp says what a RECIPE:B is.
// The last rank sleeps after each kernel, SLOWDOWN - 1 times as long as that took.
//
//     time     a line for each rank: micro-batches it gave in STEPS steps that begin after five others, and
//              the seconds of them in which its lane `compute` does, from its trace
//     train    the small model until SAMPLES sequences are learnt: held-out losses of each part of the text.
//              PARTS own: rank r draws from the r-th part only; whole: every rank from all of it

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/sampler.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/sink.hpp>

#include "optim/gpt_setting.hpp"
#include "support/ranks_main.hpp"
#include "optim/recipes.hpp"
#include "optim/row.hpp"
#include "optim/small_model.hpp"
#include "support/measure.hpp"

namespace {

using namespace reef_bench;
using reef::comm::Communicator;

double slowdown_of(const Communicator& ranks, double slowdown) {
  return ranks.rank() == ranks.size() - 1 ? slowdown : 1;
}

void time_all(double slowdown, int steps, const std::vector<Row>& rows) {
  constexpr int warm_up = 5;
  const Communicator world;
  for (const Row& row : rows) {
    std::atomic<std::uint64_t> taken{0};
    reef::trace::Sink sink(world.rank());
    Setting setting = gpt_setting(row.micro_batches, {});
    setting.source = [&taken, source = setting.source](std::uint64_t first, auto inputs) {
      ++taken;
      return source(first, inputs);
    };
    setting.accumulation = row.accumulation;
    setting.slowdown = slowdown_of(world, slowdown);
    setting.trace = &sink;
    const auto training = recipe_of(row.recipe).make(std::move(setting), world);
    for (int i = 0; i < warm_up; ++i) training->step();
    reef::trace::Recording recording;
    sink.collect(recording);
    recording.spans.clear();
    const std::uint64_t before = taken;
    const double begin = now();
    for (int i = 0; i < steps; ++i) training->step();
    const double end = now();
    sink.collect(recording);
    const auto elsewhere = [&](const reef::trace::Span& span) {
      return recording.tracks.at(span.track) != "compute";
    };
    std::erase_if(recording.spans, elsewhere);
    const reef::trace::Overlap found = reef::trace::analyze(recording.spans, begin, end);
    std::printf(
        "{\"recipe\": \"%s\", \"mode\": \"%s\", \"micro_batches\": %d, \"rank\": %d, \"steps\": "
        "%d, "
        "\"taken\": %llu, \"seconds\": %.6f, \"compute_s\": %.6f}\n",
        row.recipe.c_str(), row.mode.c_str(), row.micro_batches, world.rank(), steps,
        static_cast<unsigned long long>(taken - before), end - begin, found.compute);
    std::fflush(stdout);
  }
}

/// The r-th of as many parts of about the same length.
std::vector<std::uint8_t> part_of(const std::vector<std::uint8_t>& text, int r, int parts) {
  const auto at = [&](int part) {
    return text.begin() + static_cast<std::ptrdiff_t>(text.size() * static_cast<std::size_t>(part) /
                                                      static_cast<std::size_t>(parts));
  };
  return {at(r), at(r + 1)};
}

void train(const Text& text, double slowdown, std::uint64_t samples, std::uint64_t seed, bool own,
           const Row& row) {
  const Communicator world;
  const std::vector<std::uint8_t> mine =
      own ? part_of(text.training, world.rank(), world.size()) : text.training;
  std::vector<std::vector<std::uint8_t>> held_out;
  for (int part = 0; part < world.size(); ++part) {
    held_out.push_back(part_of(text.held_out, part, world.size()));
  }
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::size_t> evaluated{0};
  Setting setting{small_model(text.vocabulary, true),
                  [&taken, sampler = reef::data::Sampler(mine, context, seed)](
                      std::uint64_t first, std::span<const reef::AnyView> inputs) {
                    ++taken;
                    sampler.fill(first, inputs);
                    return 1.0;
                  }};
  setting.held_out = [&](std::uint64_t first, std::span<const reef::AnyView> inputs) {
    const reef::data::Validation windows(held_out[evaluated], context);
    return static_cast<double>(windows.fill(static_cast<std::int64_t>(first), inputs));
  };
  setting.micro_batches = row.micro_batches;
  setting.accumulation = row.accumulation;
  setting.slowdown = slowdown_of(world, slowdown);
  setting.seed = seed;
  setting.clip_norm = 0;
  // The number of steps is not known before, so the rate does not fall.
  setting.learning_rate = {.peak = 3e-3, .warmup = 20, .steps = 1 << 30};
  const auto training = recipe_of(row.recipe).make(std::move(setting), world);
  std::uint64_t learnt = 0;
  std::int64_t steps = 0;
  for (; learnt < samples; ++steps) learnt += training->step().samples;
  std::uint64_t mine_taken = taken;
  std::vector<double> losses;
  for (std::size_t part = 0; part < held_out.size(); ++part) {
    evaluated = part;
    const std::int64_t windows = reef::data::Validation(held_out[part], context).windows();
    losses.push_back(training->evaluate(rounds_over(windows, *training)));
  }
  std::printf("{\"rank\": %d, \"taken\": %llu, \"steps\": %lld, \"samples\": %llu, \"held_out\": [",
              world.rank(), static_cast<unsigned long long>(mine_taken),
              static_cast<long long>(steps), static_cast<unsigned long long>(learnt));
  for (std::size_t part = 0; part < losses.size(); ++part) {
    std::printf("%s%.6f", part == 0 ? "" : ", ", losses[part]);
  }
  std::printf("]}\n");
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() >= 4 && arguments[0] == "time") {
    return time_all(std::atof(arguments[1].c_str()), std::atoi(arguments[2].c_str()),
                    {arguments.begin() + 3, arguments.end()});
  }
  if (arguments.size() == 7 && arguments[0] == "train") {
    return train(Text(arguments[1]), std::atof(arguments[2].c_str()),
                 std::strtoull(arguments[3].c_str(), nullptr, 10),
                 std::strtoull(arguments[4].c_str(), nullptr, 10), arguments[5] == "own",
                 Row(arguments[6]));
  }
  throw reef::OptionError(
      "usage: optim_uneven_bench time SLOWDOWN STEPS RECIPE:B... | train CORPUS SLOWDOWN SAMPLES "
      "SEED "
      "own|whole RECIPE:B");
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "optim_uneven_bench", run);
}
