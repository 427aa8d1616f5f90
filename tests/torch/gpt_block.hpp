#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <torch/torch.h>

/// A layer of GPT-2 as libtorch's users write it: x += attention(ln_1(x)), x += mlp(ln_2(x)). Outside namespace reef,
/// where `torch` is reef::torch.
namespace torch_modules {

struct GptBlockImpl : torch::nn::Module {
  GptBlockImpl(std::int64_t channels, std::int64_t of_heads, double dropout = 0) : heads(of_heads) {
    namespace nn = torch::nn;
    ln_1 = register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({channels})));
    c_attn = register_module("c_attn", nn::Linear(channels, 3 * channels));
    c_proj = register_module("c_proj", nn::Linear(channels, channels));
    ln_2 = register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({channels})));
    c_fc = register_module("c_fc", nn::Linear(channels, 4 * channels));
    mlp_proj = register_module("mlp_proj", nn::Linear(4 * channels, channels));
    drop = register_module("drop", nn::Dropout(dropout));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + drop(c_proj(attention(ln_1(x))));
    return x + drop(mlp_proj(torch::gelu(c_fc(ln_2(x)), "tanh")));
  }

  torch::Tensor attention(const torch::Tensor& in) {
    const auto B = in.size(0), T = in.size(1), C = in.size(2);
    const auto parts = c_attn(in).view({B, T, 3, heads, C / heads}).permute({2, 0, 3, 1, 4});  // (3, B, H, T, C/H)
    const auto q = parts[0], k = parts[1], v = parts[2];
    const auto scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(C / heads));
    const auto later = torch::ones({T, T}, in.options().dtype(torch::kBool)).triu(1);
    const auto p = torch::softmax(scores.masked_fill(later, -std::numeric_limits<double>::infinity()), -1);
    return p.matmul(v).transpose(1, 2).reshape({B, T, C});
  }

  std::int64_t heads;
  torch::nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  torch::nn::Linear c_attn{nullptr}, c_proj{nullptr}, c_fc{nullptr}, mlp_proj{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(GptBlock);

}  // namespace torch_modules
