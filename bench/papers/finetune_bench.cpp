// Fine-tuning with padded samples and a loss that counts answers alone, by any recipe of bench/optim.
//
//   mpiexec -n 2 build/release/bench/papers_finetune_bench train PAIRS INIT RECIPE SEED STEPS
//   mpiexec -n 2 build/release/bench/papers_finetune_bench time PAIRS INIT ROUNDS FLOPS SHARE RECIPE...
//
// acco.py starts it, and makes tables of what it prints: lines of JSON.
//
//     PAIRS     a line each: a question, a tab, its answer; of ten lines the last is held out
//     INIT      a GPT-2 as `reef-train --export` writes it, a token a byte; 4 heads
//     a sample  question, line feed, answer, line feed, and 0 up to the context; targets of question and padding are -1
//     a step    16 samples: 8 micro-batches of 2, shared out evenly over ranks and phases. The weight of a micro-batch is
//               the number of its targets, so that a step's loss is the mean over tokens, whoever has them
//     rate      peak 1e-3, 10 steps of warm-up, then a cosine to 0 over STEPS; gradients are clipped at norm 1
//
// `time`: seconds of steps over links on which an exchange of the model takes SHARE of a step's micro-batches. Devices of FLOPS
// operations a second are emulated: what a core computes faster waits for the rest of its time. RECIPE may be ddp-each, too:
// Ddp that exchanges gradients after each micro-batch.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/core/error.hpp>
#include <reef/data/permutation.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/host.hpp>

#include "optim/links.hpp"
#include "optim/recipes.hpp"
#include "support/ranks_main.hpp"

namespace {

using namespace reef_bench;
using reef::AnyView;
using reef::comm::Communicator;
using reef::profile::Network;

constexpr int micro_batches_of_step = 8;
constexpr std::int64_t batch = 2;

struct Pair {
  std::string text;          ///< question and answer, each with its line feed
  std::size_t question = 0;  ///< its length, line feed included
};

/// Row b of tokens and targets, (B, T) int32; returns how many targets count.
std::int64_t fill_row(const Pair& pair, std::int64_t b, std::span<const AnyView> inputs) {
  const auto context = static_cast<std::size_t>(inputs[0].shape()[1]);
  const auto tokens =
      inputs[0].as<std::int32_t>().span().subspan(static_cast<std::size_t>(b) * context, context);
  const auto targets =
      inputs[1].as<std::int32_t>().span().subspan(static_cast<std::size_t>(b) * context, context);
  std::fill(tokens.begin(), tokens.end(), 0);
  std::fill(targets.begin(), targets.end(), -1);
  const auto byte = [&](std::size_t at) {
    return static_cast<std::int32_t>(static_cast<unsigned char>(pair.text[at]));
  };
  std::int64_t counted = 0;
  for (std::size_t t = 0; t + 1 < pair.text.size(); ++t) {
    tokens[t] = byte(t);
    if (t + 1 < pair.question) continue;
    targets[t] = byte(t + 1);
    ++counted;
  }
  return counted;
}

struct Pairs {
  std::vector<Pair> training;
  std::vector<Pair> held_out;

  Pairs(const std::string& path, std::int64_t context) {
    std::ifstream file(path);
    std::size_t number = 0;
    for (std::string line; std::getline(file, line); ++number) {
      const std::size_t tab = line.find('\t');
      if (tab == std::string::npos || line.size() > static_cast<std::size_t>(context)) {
        throw reef::FileError("papers_finetune_bench: '", path, "' line ", number + 1,
                              " is no question, tab and answer of ", context, " bytes at most.");
      }
      line[tab] = '\n';
      (number % 10 == 9 ? held_out : training).push_back({line + "\n", tab + 1});
    }
    if (held_out.empty())
      throw reef::FileError("papers_finetune_bench: '", path, "' has no ten lines.");
  }
};

/// What is trained, and from which weights.
struct Job {
  reef::nn::Gpt2File file;
  reef::nn::GptConfig config;
  Pairs pairs;

  Job(const std::string& path, const std::string& init)
      : file(init), config(config_of(file)), pairs(path, config.context) {}

  static reef::nn::GptConfig config_of(const reef::nn::Gpt2File& file) {
    reef::nn::GptConfig config = file.config();
    config.heads = 4;  // no tensor says it
    config.batch = batch;
    return config;
  }

  [[nodiscard]] Setting setting(std::uint64_t seed, std::int64_t steps, int micro_batches) const {
    const auto draw = [&pairs = pairs.training, seed](std::uint64_t first,
                                                      std::span<const AnyView> inputs) {
      double counted = 0;
      for (std::int64_t b = 0; b < batch; ++b) {
        const std::uint64_t sample = first + static_cast<std::uint64_t>(b);
        const reef::data::Permutation order(pairs.size(), {seed, sample / pairs.size(), 0, 0});
        counted += static_cast<double>(fill_row(pairs[order(sample % pairs.size())], b, inputs));
      }
      return counted;
    };
    Setting result{reef::nn::gpt<reef::device::Host, float>(config, 1), draw};
    result.held_out = [&pairs = pairs.held_out](std::uint64_t first,
                                                std::span<const AnyView> inputs) {
      double counted = 0;
      for (std::int64_t b = 0; b < batch; ++b) {
        const std::uint64_t sample = first + static_cast<std::uint64_t>(b);
        counted += static_cast<double>(
            fill_row(sample < pairs.size() ? pairs[sample] : Pair{}, b, inputs));
      }
      return counted;
    };
    result.micro_batches = micro_batches;
    result.seed = seed;
    result.learning_rate = {.peak = 1e-3, .warmup = 10, .steps = steps};
    result.bucket_bytes = 64 << 10;
    return result;
  }

  void read_into(Training& training) const {
    file.read<float>(training.model().dag(), config.vocabulary,
                     [&](const std::string& name, const std::vector<float>& values) {
                       training.set_parameter(name, values);
                     });
  }
};

void train(const Job& job, const std::string& recipe, std::uint64_t seed, std::int64_t steps) {
  const Communicator world;
  const auto training =
      recipe_of(recipe).make(job.setting(seed, steps, micro_batches_of_step / world.size()), world);
  job.read_into(*training);
  const auto in_round = static_cast<std::size_t>(training->plan().micro_batches_in_all() * batch);
  const int rounds = static_cast<int>((job.pairs.held_out.size() + in_round - 1) / in_round);
  for (std::int64_t step = 0; step <= steps; ++step) {
    const double loss = step == 0 ? 0 : training->step().loss;
    if (step % 20 != 0 && step != steps) continue;
    const double held_out = training->evaluate(rounds);
    if (world.rank() == 0) {
      std::printf("{\"step\": %lld, \"loss\": %.6f, \"held_out\": %.6f}\n",
                  static_cast<long long>(step), loss, held_out);
    }
  }
}

void time_all(const Job& job, int rounds, double flops, double share,
              const std::vector<std::string>& names) {
  const Communicator world;
  const Communicator self(MPI_COMM_SELF, "self");
  const auto setting = [&](int micro_batches, Network links) {
    Setting result = job.setting(1, 1000, micro_batches);
    result.network = std::move(links);
    result.flops = flops;
    return result;
  };
  const int of_rank = micro_batches_of_step / world.size();
  const Network links =
      links_for(share * of_rank * micro_batch_seconds(setting, self), setting, world);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[(i + static_cast<std::size_t>(round)) % names.size()];
      // A Ddp that reduces gradients after every micro-batch: as many steps of one.
      const bool after_each = name == "ddp-each";
      const Recipe& recipe = recipe_of(after_each ? "ddp" : name);
      const int of_exchange = after_each ? 1 : of_rank;
      const auto steps =
          time_steps(recipe, setting(of_exchange, links), world, 10 * of_rank / of_exchange);
      const double step = of_rank / of_exchange * median(steps.seconds);
      if (world.rank() == 0) {
        std::printf("{\"round\": %d, \"recipe\": \"%s\", \"step_s\": %.6f}\n", round, name.c_str(),
                    step);
      }
    }
  }
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 6 && arguments[0] == "train") {
    return train(Job(arguments[1], arguments[2]), arguments[3],
                 std::strtoull(arguments[4].c_str(), nullptr, 10),
                 std::atoll(arguments[5].c_str()));
  }
  if (arguments.size() >= 7 && arguments[0] == "time") {
    return time_all(Job(arguments[1], arguments[2]), std::atoi(arguments[3].c_str()),
                    std::atof(arguments[4].c_str()), std::atof(arguments[5].c_str()),
                    {arguments.begin() + 6, arguments.end()});
  }
  throw reef::OptionError(
      "usage: papers_finetune_bench train PAIRS INIT RECIPE SEED STEPS | time PAIRS INIT ROUNDS "
      "FLOPS SHARE RECIPE...");
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "papers_finetune_bench", run);
}
