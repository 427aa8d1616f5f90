#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/nn/cuda.cuh>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/torch/cuda.hpp>
#include <reef/torch/data_parallel.hpp>

#include "../../tests/torch/gpt_block.hpp"

// data_parallel on one GPU, a rank alone, beside the loop that libtorch's users write, torch::optim::AdamW, on the same GPU:
//
//   bench/torch_cuda_data_parallel_bench [ROUNDS] [STEPS]
//
// The two take turns; a line of JSON for each module, of the median step of the median round. Where there is no GPU it says so.

namespace {

using Batch = reef::torch::Tensors;

/// Of the rounds' median steps.
struct Side {
  std::vector<double> seconds{};
  double loss = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// `step` ends when its loss is known.
template <class Step>
void take_round(Side& side, int steps, const Step& step) {
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    side.loss = step(i);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  side.seconds.push_back(median(std::move(seconds)));
}

::torch::nn::Sequential module_of(const std::string& name) {
  namespace nn = ::torch::nn;
  ::torch::manual_seed(1);
  nn::Sequential net;
  if (name == "mlp") {  // 68 million parameters
    for (int layer = 0; layer < 4; ++layer) {
      net->push_back(nn::Linear(4096, 4096));
      net->push_back(nn::ReLU());
    }
    net->push_back(nn::Linear(4096, 10));
  } else {  // a GPT of 12 layers of 768 channels, without embedding: 85 million
    for (int layer = 0; layer < 12; ++layer) net->push_back(torch_modules::GptBlock(768, 12));
    net->push_back(nn::LayerNorm(nn::LayerNormOptions({768})));
    net->push_back(nn::Linear(768, 512));
  }
  return net;
}

Batch batch_of(const std::string& name, int number) {
  ::torch::manual_seed(static_cast<std::uint64_t>(number));
  if (name == "mlp") return {at::randn({512, 4096}), at::randint(10, {512}, at::kLong)};
  return {at::randn({4, 512, 768}), at::randint(512, {4, 512}, at::kLong)};
}

at::Tensor loss_of(const at::Tensor& output, const Batch& batch) {
  return at::cross_entropy_loss(output.reshape({-1, output.size(-1)}), batch[1].reshape({-1}));
}

void compare(const std::string& name, int rounds, int steps) {
  std::vector<Batch> batches;
  for (int number = 0; number < 4; ++number) {
    batches.push_back(batch_of(name, number));
    for (at::Tensor& tensor : batches.back()) tensor = tensor.cuda();
  }
  const auto batch = [&](int step) -> const Batch& { return batches[static_cast<std::size_t>(step % 4)]; };

  reef::torch::DataParallelOptions<reef::device::Cuda, reef::optim::Zero1<reef::optim::AdamW>> options;
  options.learning_rate = {.peak = 1e-4};
  options.rule = reef::optim::AdamW({.beta2 = 0.999, .weight_decay = 0});
  options.clip_norm = 0;
  auto ours = module_of(name);
  ours->to(at::kCUDA);
  auto training = reef::torch::data_parallel(ours, loss_of, batches[0], options);

  auto theirs = module_of(name);
  theirs->to(at::kCUDA);
  ::torch::optim::AdamW optimizer(theirs->parameters(), ::torch::optim::AdamWOptions(1e-4).weight_decay(0));

  Side reef;
  Side libtorch;
  for (int round = 0; round < rounds; ++round) {
    take_round(libtorch, steps, [&](int step) {
      optimizer.zero_grad();
      const at::Tensor loss = loss_of(theirs->forward(batch(step)[0]), batch(step));
      loss.backward();
      optimizer.step();
      return loss.item<double>();
    });
    take_round(reef, steps, [&](int step) { return training.step(batch(step)).loss; });
  }
  std::printf("{\"module\": \"%s\", \"reef_s\": %.6g, \"libtorch_s\": %.6g, \"reef_loss\": %.6g, \"libtorch_loss\": %.6g}\n", name.c_str(),
              median(reef.seconds), median(libtorch.seconds), reef.loss, libtorch.loss);
}

}  // namespace

int main(int argc, char** argv) try {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // as ModuleOptions::deterministic wants it
  const reef::comm::Environment mpi(argc, argv);
  std::string why;
  if (!reef::device::cuda_available(&why)) {
    std::printf("skipped: %s\n", why.c_str());
    return 0;
  }
  const int rounds = argc > 1 ? std::stoi(argv[1]) : 5;
  const int steps = argc > 2 ? std::stoi(argv[2]) : 12;
  for (const char* const name : {"mlp", "gpt"}) compare(name, rounds, steps);
} catch (const std::exception& error) {
  return reef::comm::report_failure("cuda_data_parallel_bench", error);
}
