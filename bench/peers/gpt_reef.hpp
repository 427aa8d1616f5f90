#pragma once

// Reef's side of the comparison with PyTorch: trains one GPT and prints one line of JSON. run.py, or on a GPU
// gpu.py, starts it; gpt_torch.py is the other side.
//
//   --configuration b256   a, gpt2, b256 or b50k
//   --weights FILE         safetensors to start from; written first where there is none
//   --threads 2            of this rank
//   --steps 13 --warmup 3  steps in all, and how many of them are not timed
//   --lr 1e-3              of every step
//   --clip 1.0             the largest gradient norm, 0 for none
//   --precision fp32       or bf16, with fp32 master weights

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/environment.hpp>
#include <reef/core/precision.hpp>
#include <reef/device/cores.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/trainer/trainer.hpp>

#include "configuration.hpp"

namespace reef_peers {

inline reef::run::Source source(std::int64_t vocabulary) {
  return [vocabulary](std::uint64_t first, std::span<const reef::AnyView> inputs) {
    const std::int64_t length = inputs[0].shape()[1];
    std::int32_t* tokens = inputs[0].as<std::int32_t>().data();
    std::int32_t* targets = inputs[1].as<std::int32_t>().data();
    for (std::int64_t b = 0; b < inputs[0].shape()[0]; ++b) {
      const std::uint64_t sample = first + static_cast<std::uint64_t>(b);
      for (std::int64_t t = 0; t < length; ++t) {
        const auto position = static_cast<std::uint64_t>(t);
        *tokens++ = token(sample, position, vocabulary);
        *targets++ = token(sample, position + 1, vocabulary);
      }
    }
    return 1.0;
  };
}

template <class Trainer>
void save(Trainer& trainer, const std::string& path) {
  std::vector<std::vector<float>> values;
  std::vector<reef::io::NamedView> tensors;
  for (const reef::graph::Parameter& parameter : trainer.model().dag().parameters) {
    values.push_back(trainer.parameter(parameter.name));
    tensors.push_back(
        {parameter.name, {values.back().data(), parameter.spec.shape, reef::Element::float32}});
  }
  reef::io::write_safetensors(path, tensors);
}

template <class Trainer>
void load(Trainer& trainer, const std::string& path) {
  const reef::io::SafetensorsFile file(path);
  for (const reef::graph::Parameter& parameter : trainer.model().dag().parameters) {
    std::vector<float> values(static_cast<std::size_t>(parameter.spec.shape.size()));
    file.read(parameter.name, {values.data(), parameter.spec.shape, reef::Element::float32});
    trainer.set_parameter(parameter.name, values);
  }
}

inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

inline void print_list(const char* name, const std::vector<double>& values) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::printf("%s%.9g", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

template <class Trainer>
void train(const Arguments& arguments) {
  const reef::comm::Communicator ranks;
  reef::nn::GptConfig config = configuration(arguments.text("--configuration", "b256"));
  const std::int64_t length = config.sequence == 0 ? config.context : config.sequence;
  const std::int64_t tokens = config.batch * length;
  config.batch /= ranks.size();
  const int threads = arguments.number("--threads", reef::device::available_cores());

  typename Trainer::Options options;
  options.rule.options = {0.9, 0.95, 1e-8, 0.1};
  options.learning_rate.peak = arguments.real("--lr", 1e-3);
  options.clip_norm = arguments.real("--clip", 1.0);
  if constexpr (requires { options.device.threads; }) options.device.threads = threads;
  Trainer trainer(reef::nn::gpt<typename Trainer::Device, typename Trainer::T>(config, threads),
                  source(config.vocabulary), options, {}, ranks);
  const std::string weights = arguments.text("--weights", "");
  if (!weights.empty()) {
    if (trainer.rank() == 0 && !std::filesystem::exists(weights)) save(trainer, weights);
    load(trainer, weights);
  }

  const int steps = arguments.number("--steps", 13);
  const int warmup = arguments.number("--warmup", 3);
  std::vector<double> losses;
  std::vector<double> seconds;
  double cpu = 0;
  for (int step = 0; step < steps; ++step) {
    if (step == warmup) cpu = cpu_seconds();
    const auto begin = std::chrono::steady_clock::now();
    losses.push_back(trainer.step().loss);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (step >= warmup) seconds.push_back(elapsed.count());
  }
  cpu = cpu_seconds() - cpu;
  if (trainer.rank() != 0) return;
  std::printf("{\"tokens\": %lld, \"cpu_seconds\": %.6f, ", static_cast<long long>(tokens), cpu);
  print_list("losses", losses);
  std::printf(", ");
  print_list("seconds", seconds);
  std::printf("}\n");
}

/// main, on this kind of device.
template <class Device>
int main_on(int argc, char** argv) {
  using Optim = reef::optim::Ddp<reef::optim::AdamW>;
  try {
    const reef::comm::Environment environment;
    const Arguments arguments(argc, argv);
    const std::string precision = arguments.text("--precision", "fp32");
    if (precision == "bf16") {
      train<reef::Trainer<Device, Optim, reef::precision::Bf16>>(arguments);
    } else if (precision == "fp32") {
      train<reef::Trainer<Device, Optim, reef::precision::Fp32>>(arguments);
    } else {
      throw reef::OptionError("--precision is ", precision, ".\n  fix: fp32 or bf16.");
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt_reef: %s\n", error.what());
    return 1;
  }
}

}  // namespace reef_peers
