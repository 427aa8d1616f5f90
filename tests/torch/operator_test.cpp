#include <reef/torch/module.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/nn/host.hpp>

#include "../laws/operator.hpp"
#include "gpt_block.hpp"

// Modules keep the laws of operators.

namespace torch_modules {

/// The mean over rows whose target is not -1.
struct LossImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& logits, const torch::Tensor& targets) {
    const auto options = torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1);
    return torch::nn::functional::cross_entropy(logits.view({-1, logits.size(-1)}), targets.view(-1), options);
  }
};
TORCH_MODULE(Loss);

}  // namespace torch_modules

namespace reef::test {
namespace {

namespace nn_of_torch = ::torch::nn;

struct ModuleCase {
  static constexpr std::int32_t classes = 1;
  static constexpr double tolerance = 64;
  static constexpr bool stochastic = false;
};

struct ConvolutionCase : ModuleCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 2, 3, 4}}}; }
  static auto op() { return torch::Module(nn_of_torch::Conv2d(nn_of_torch::Conv2dOptions(2, 3, 3).padding(1))); }
};

struct BlockCase : ModuleCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 3, 4}}}; }
  static auto op() { return torch::Module(torch_modules::GptBlock(4, 2)); }
};

struct DropoutCase : ModuleCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 5}}}; }
  static auto op() { return torch::Module(nn_of_torch::Sequential(nn_of_torch::Linear(5, 7), nn_of_torch::Dropout(0.3))); }
  static constexpr bool stochastic = true;
};

struct EmbeddingCase : ModuleCase {
  static std::vector<InputCase> inputs() { return {{"tokens", {3, 5}, true}}; }
  static auto op() { return torch::Module(nn_of_torch::Embedding(6, 3)); }
  static constexpr std::int32_t classes = 5;
};

struct LossCase : ModuleCase {
  static std::vector<InputCase> inputs() { return {{"logits", {3, 2, 13}}, {"targets", {3, 2}, true}}; }
  static auto op() { return torch::Module(torch_modules::Loss()); }
  static constexpr std::int32_t classes = 13;
};

template <class... Cases>
using OnHost = ::testing::Types<Subject<device::Host, Cases>...>;

INSTANTIATE_TYPED_TEST_SUITE_P(TorchConvolution, OperatorLaws, OnHost<ConvolutionCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(TorchBlock, OperatorLaws, OnHost<BlockCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(TorchDropout, OperatorLaws, OnHost<DropoutCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(TorchEmbedding, OperatorLaws, OnHost<EmbeddingCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(TorchLoss, OperatorLaws, OnHost<LossCase>);

}  // namespace
}  // namespace reef::test
