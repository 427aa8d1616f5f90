// How far the recipes come: held-out loss of one small model, every recipe on exactly the same samples.
//
//   mpiexec -n 2 build/release/bench/optim_convergence_bench train CORPUS RECIPE SEED STEPS INIT NOISE
//   mpiexec --bind-to core -n 2 build/release/bench/optim_convergence_bench time CORPUS ROUNDS SLOWDOWN RECIPE...
//
// convergence.py starts it, and makes tables and a plot of what it prints: lines of JSON.
//
//     model     65 568 parameters: 2 layers, 4 heads, 48 channels, context 32, a token for each different
//               byte of the corpus, head not tied, no biases
//     data      blocks of 1000 bytes, of which every tenth is held out
//     a step    32 sequences: 16 micro-batches of 2, shared out evenly over ranks and phases; a step of any
//               recipe applies the gradient of the same 32
//     rate      peak 3e-3, 20 steps of warm-up, then a cosine to 0 over STEPS; nothing is clipped
//     INIT      fan-in: matrices of K rows with deviation 1 / sqrt(3 K), as PyTorch's; gpt2: with 0.02, and
//               0.01 into the residual stream; embeddings always with 0.02
//     NOISE     deviation of what is added to the weights before the first step
//
// `time`: seconds of steps over links on which an exchange of the model takes half of a step's micro-batches,
// the longest that every recipe can hide; the links are emulated, and change no bit of what is learnt. The
// device is SLOWDOWN times as slow as this one, and sleeps for the rest: half a millisecond, which a
// micro-batch takes here, is no longer than a few wake-ups of the threads that communicate.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/data/sampler.hpp>

#include "optim/links.hpp"
#include "support/ranks_main.hpp"
#include "optim/recipes.hpp"
#include "optim/small_model.hpp"
#include "support/measure.hpp"

namespace {

using namespace reef_bench;
using reef::comm::Communicator;
using reef::profile::Network;

constexpr int micro_batches_of_step = 16;

Setting setting_of(const Text& text, std::uint64_t seed, std::int64_t steps, int ranks,
                   bool fan_in) {
  if (micro_batches_of_step % ranks != 0) {
    throw reef::OptionError("optim_convergence_bench: ", micro_batches_of_step,
                            " micro-batches over ", ranks, " ranks.\n  fix: 1, 2, 4 or 8 ranks.");
  }
  Setting result{small_model(text.vocabulary, fan_in),
                 [sampler = reef::data::Sampler(text.training, context, seed)](
                     std::uint64_t first, std::span<const reef::AnyView> inputs) {
                   sampler.fill(first, inputs);
                   return 1.0;
                 }};
  result.held_out = [windows = reef::data::Validation(text.held_out, context)](
                        std::uint64_t first, std::span<const reef::AnyView> inputs) {
    return static_cast<double>(windows.fill(static_cast<std::int64_t>(first), inputs));
  };
  result.micro_batches = micro_batches_of_step / ranks;
  result.seed = seed;
  result.clip_norm = 0;
  result.learning_rate = {.peak = 3e-3, .warmup = 20, .steps = steps};
  result.bucket_bytes = 64 << 10;
  return result;
}

/// Adds numbers of that deviation to all weights, the same on every rank.
void add_noise(Training& training, std::uint64_t seed, double deviation) {
  std::uint32_t number = 0;
  for (const auto& parameter : training.model().dag().parameters) {
    std::vector<float> values = training.parameter(parameter.name);
    const reef::DrawKey key{seed, 1, 0, number++};
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<float>(deviation * reef::normal(key, i));
    }
    training.set_parameter(parameter.name, values);
  }
}

/// What this rank has brought others, by messages or through shared memory.
reef::Bytes bytes_of(Training& training) {
  const reef::comm::Cost cost = training.progress().meter().operations();
  return cost.bytes + cost.window_bytes;
}

void train(const Text& text, const std::string& recipe, std::uint64_t seed, std::int64_t steps,
           bool fan_in, double noise) {
  const Communicator world;
  const auto training =
      recipe_of(recipe).make(setting_of(text, seed, steps, world.size(), fan_in), world);
  if (noise > 0) add_noise(*training, seed, noise);
  const int rounds =
      rounds_over(reef::data::Validation(text.held_out, context).windows(), *training);
  reef::Bytes sent = 0;  // by this rank, in steps
  for (std::int64_t step = 0; step <= steps; ++step) {
    const reef::Bytes before = bytes_of(*training);
    const double loss = step == 0 ? 0 : training->step().loss;
    sent += bytes_of(*training) - before;
    if (step % 20 != 0 && step != steps) continue;
    const double held_out = training->evaluate(rounds);
    if (world.rank() == 0) {
      std::printf("{\"step\": %lld, \"loss\": %.6f, \"held_out\": %.6f}\n",
                  static_cast<long long>(step), loss, held_out);
    }
  }
  if (world.rank() == 0) {
    std::printf(
        "{\"parameters\": %lld, \"training_bytes\": %zu, \"held_out_bytes\": %zu, "
        "\"vocabulary\": %lld, \"sent_bytes\": %llu}\n",
        static_cast<long long>(training->model().dag().parameter_count()), text.training.size(),
        text.held_out.size(), static_cast<long long>(text.vocabulary),
        static_cast<unsigned long long>(sent));
  }
}

void time_all(const Text& text, int rounds, double slowdown,
              const std::vector<std::string>& names) {
  const Communicator world;
  const Communicator self(MPI_COMM_SELF, "self");
  const auto setting = [&](int micro_batches, Network links) {
    Setting result = setting_of(text, 1, 1000, world.size(), true);
    result.micro_batches = micro_batches;
    result.network = std::move(links);
    result.slowdown = slowdown;
    return result;
  };
  const int of_rank = micro_batches_of_step / world.size();
  const double of_step = of_rank * micro_batch_seconds(setting, self);
  const Network links = links_for(of_step / 2, setting, world);
  for (int round = 0; round < rounds; ++round) {
    const double c = micro_batch_seconds(setting, self);
    const double m = exchange_seconds(setting(of_rank, links), world);
    if (world.rank() == 0) {
      std::printf("{\"round\": %d, \"c\": %.6f, \"m\": %.6f, \"bytes_per_s\": %.0f}\n", round, c, m,
                  links.rate(0, 1));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[(i + static_cast<std::size_t>(round)) % names.size()];
      const Steps steps = time_steps(recipe_of(name), setting(of_rank, links), world, 40);
      // The mean, since not every step of DiLoCo communicates.
      const double of_a_step =
          std::accumulate(steps.seconds.begin(), steps.seconds.end(), 0.0) / 40;
      if (world.rank() == 0) {
        std::printf("{\"round\": %d, \"recipe\": \"%s\", \"step_s\": %.6f}\n", round, name.c_str(),
                    of_a_step);
      }
    }
  }
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 7 && arguments[0] == "train") {
    return train(Text(arguments[1]), arguments[2], std::strtoull(arguments[3].c_str(), nullptr, 10),
                 std::atoll(arguments[4].c_str()), arguments[5] == "fan-in",
                 std::atof(arguments[6].c_str()));
  }
  if (arguments.size() >= 5 && arguments[0] == "time") {
    return time_all(Text(arguments[1]), std::atoi(arguments[2].c_str()),
                    std::atof(arguments[3].c_str()), {arguments.begin() + 4, arguments.end()});
  }
  throw reef::OptionError(
      "usage: optim_convergence_bench train CORPUS RECIPE SEED STEPS INIT NOISE | time CORPUS "
      "ROUNDS SLOWDOWN RECIPE...");
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "optim_convergence_bench", run);
}
