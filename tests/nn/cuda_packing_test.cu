// Several samples in a row, on Cuda: the laws of operators, and a model against the host, forward and backward.

#include <reef/nn/cuda.cuh>
#include <reef/nn/packing.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/llama.hpp>

#include "cuda_and_host.hpp"

namespace reef::test {
namespace {

/// About half of the tokens begin a sample, since "classes" is 2^32 - 1.
struct CudaPackedAttentionCase {
  static std::vector<InputCase> inputs() {
    return {{"q", {2, 5, 4}}, {"k", {2, 5, 2}}, {"v", {2, 5, 2}}, {"tokens", {2, 5}, true}};
  }
  static auto op() { return nn::Packed<nn::GroupedAttention>{{.heads = 2, .kv_heads = 1, .window = 3, .alibi = true}}; }
  static constexpr std::int32_t classes = -1;
  static constexpr double tolerance = 64;
  static constexpr bool stochastic = false;
};

/// Whose backward reads no input, so that tokens are kept aside.
struct CudaPackedRotaryCase : CudaPackedAttentionCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 5, 6}}, {"tokens", {2, 5}, true}}; }
  static auto op() { return nn::Packed<nn::Rotary>{{.head_size = 6}}; }
};

using PackedOnCuda = AllOnCuda<CudaPackedAttentionCase, CudaPackedRotaryCase>;

template <class T>
class PackingOnCuda : public CudaAndHost<T> {};
using Elements = ::testing::Types<float, double, Bfloat16>;
TYPED_TEST_SUITE(PackingOnCuda, Elements);

TYPED_TEST(PackingOnCuda, operators_are_the_hosts_sample_by_sample) {
  // Of 70 positions in a row, about half begin a sample.
  constexpr std::int64_t B = 2, T_ = 70;
  this->agree("attention", nn::Packed<nn::CausalAttention>{{.heads = 2}}, {{"qkv", {B, T_, 24}}, {"tokens", {B, T_}, true}}, 256, -1);
  this->agree("grouped", nn::Packed<nn::GroupedAttention>{{.heads = 4, .kv_heads = 2, .window = 3, .alibi = true}},
              {{"q", {B, T_, 20}}, {"k", {B, T_, 10}}, {"v", {B, T_, 10}}, {"tokens", {B, T_}, true}}, 256, -1);
  this->agree("rotary", nn::Packed<nn::Rotary>{{.head_size = 6}}, {{"in", {B, T_, 12}}, {"tokens", {B, T_}, true}}, 64, -1);
  this->agree("table", nn::Packed<nn::TokenEmbedding>{{.vocabulary = 7, .channels = 10}}, {{"tokens", {B, T_}, true}}, 64, 7);
  this->agree("vectors", nn::Packed<nn::Embedding>{{.vocabulary = 7, .positions = T_, .channels = 10}}, {{"tokens", {B, T_}, true}},
              64, 7);
}

/// The loss and the gradients of a packed model, of tokens some of which begin a sample.
template <class Device, class T>
std::map<std::string, std::vector<sum_t<T>>> packed_gradients(const graph::Graph<Device, T>& plain) {
  Device device{typename Device::Options{}};
  const auto model = nn::with_packing(plain).serving(device.threads());
  GraphRunner<Device, T> runner(device, model);
  const auto& dag = model.dag();
  for (const auto& [id, values] : Point<T>::make(dag, 11).parameters) runner.set_parameter(id, values);
  std::vector<std::int32_t> tokens, targets;
  for (int i = 0; i < 2 * 12; ++i) {
    tokens.push_back(i % 5 == 3 || i == 16 ? ~(i % 11) : i % 11);
    targets.push_back(i % 5 == 2 ? -1 : (i + 3) % 11);
  }
  runner.set(dag.tensor("tokens"), tokens);
  runner.set(dag.tensor("targets"), targets);
  runner.forward();
  runner.set_gradient(dag.loss, {sum_t<T>(1)});
  runner.backward();
  std::map<std::string, std::vector<sum_t<T>>> result;
  for (std::size_t id = 0; id < dag.parameters.size(); ++id) {
    result[dag.parameters[id].name] = runner.parameter_gradient(static_cast<int>(id));
  }
  return result;
}

template <class Device, class T>
graph::Graph<Device, T> small_llama() {
  nn::LlamaConfig config;
  config.layers = 2;
  config.heads = 2;
  config.kv_heads = 1;
  config.channels = 12;
  config.hidden = 16;
  config.vocabulary = 11;
  config.context = 12;
  config.batch = 2;
  config.sequence = 12;
  return nn::llama<Device, T>(config, 1);
}

class CudaPackedModel : public CudaAndHost<float> {};

TEST_F(CudaPackedModel, has_the_hosts_gradients) {
  const auto wanted = packed_gradients(small_llama<Host, float>());
  const auto got = packed_gradients(small_llama<Cuda, float>());
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, values] : got) EXPECT_LE(difference(values, wanted.at(name)), 2e-6) << name;
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(PackingOnCuda, OperatorLaws, PackedOnCuda);

}  // namespace reef::test
