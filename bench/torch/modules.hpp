#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <torch/torch.h>

/// The modules of the benchmark and their batches, as those of ddp_torch.py to the bit. Outside namespace reef, where
/// `torch` is reef::torch.
namespace bench_modules {

using Batch = std::vector<at::Tensor>;

struct GptBlockImpl : torch::nn::Module {
  GptBlockImpl(std::int64_t channels, std::int64_t of_heads) : heads(of_heads) {
    namespace nn = torch::nn;
    ln_1 = register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({channels})));
    c_attn = register_module("c_attn", nn::Linear(channels, 3 * channels));
    c_proj = register_module("c_proj", nn::Linear(channels, channels));
    ln_2 = register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({channels})));
    c_fc = register_module("c_fc", nn::Linear(channels, 4 * channels));
    mlp_proj = register_module("mlp_proj", nn::Linear(4 * channels, channels));
  }

  at::Tensor forward(at::Tensor x) {
    const auto B = x.size(0), T = x.size(1), C = x.size(2);
    const auto parts = c_attn(ln_1(x)).view({B, T, 3, heads, C / heads}).permute({2, 0, 3, 1, 4});
    const auto scores = parts[0].matmul(parts[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(C / heads));
    const auto later = torch::ones({T, T}, torch::kBool).triu(1);
    const auto p = scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1);
    x = x + c_proj(p.matmul(parts[2]).transpose(1, 2).reshape({B, T, C}));
    return x + mlp_proj(torch::gelu(c_fc(ln_2(x)), "tanh"));
  }

  std::int64_t heads;
  torch::nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  torch::nn::Linear c_attn{nullptr}, c_proj{nullptr}, c_fc{nullptr}, mlp_proj{nullptr};
};
TORCH_MODULE(GptBlock);

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
