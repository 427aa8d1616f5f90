#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "../../tests/torch/gpt_block.hpp"

/// The modules of the benchmark and their batches, as those of ddp_torch.py to the bit. Outside namespace reef, where
/// `torch` is reef::torch.
namespace bench_modules {

using Batch = std::vector<at::Tensor>;

using torch_modules::GptBlock;

struct HeadImpl : torch::nn::Module {
  HeadImpl() {
    ln_f = register_module("ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({128})));
    head = register_module("head", torch::nn::Linear(128, 512));
  }
  at::Tensor forward(const at::Tensor& x) { return head(ln_f(x)).view({-1, 512}); }
  torch::nn::LayerNorm ln_f{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Head);

inline torch::nn::Sequential module(const std::string& name) {
  namespace nn = torch::nn;
  torch::manual_seed(1);
  if (name == "mlp") {
    nn::Sequential net;
    net->push_back(nn::Linear(256, 1024));
    net->push_back(nn::ReLU());
    net->push_back(nn::Linear(1024, 1024));
    net->push_back(nn::ReLU());
    net->push_back(nn::Linear(1024, 1024));
    net->push_back(nn::ReLU());
    net->push_back(nn::Linear(1024, 10));
    return net;
  }
  nn::Sequential net;
  if (name == "conv") {
    for (const auto& [in, out] : {std::pair<std::int64_t, std::int64_t>{3, 32}, {32, 64}, {64, 128}}) {
      net->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)));
      net->push_back(nn::ReLU());
      net->push_back(nn::MaxPool2d(2));
    }
    net->push_back(nn::Flatten());
    net->push_back(nn::Linear(2048, 10));
    return net;
  }
  net->push_back(nn::Embedding(512, 128));
  net->push_back(GptBlock(128, 4));
  net->push_back(GptBlock(128, 4));
  net->push_back(Head());
  return net;
}

inline Batch batch(const std::string& name, std::uint64_t number) {
  const std::vector<std::int64_t> sizes = name == "mlp" ? std::vector<std::int64_t>{32, 256}
                                          : name == "conv" ? std::vector<std::int64_t>{16, 3, 32, 32}
                                                           : std::vector<std::int64_t>{4, 64};
  const std::int64_t count = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  const auto wave = (torch::arange(count, torch::kFloat) * (0.3 + 0.01 * static_cast<double>(number % 7))).sin().view(sizes);
  if (name == "gpt") {
    const auto tokens = ((wave + 1) * 255).floor().to(torch::kLong);
    return {tokens, tokens.roll(-1, 1).reshape({-1})};
  }
  return {wave, (wave.flatten(1).sum(1) * 3).floor().to(torch::kLong).remainder(10)};
}

}  // namespace bench_modules
