// Sessions on Cuda: the host's tokens, and logits that depend on a sequence's tokens and the weights alone.

#include <reef/nn/cuda.cuh>
#include <reef/nn/cuda/rows.cuh>
#include <reef/nn/session.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/lora.hpp>

#include "../laws/graph_runner.hpp"
#include "cuda_rows.hpp"

namespace reef::test {
namespace {

using graph::StateForm;
using graph::WeightForm;
using Tokens = std::vector<std::int32_t>;
using Logits = std::vector<std::vector<float>>;

constexpr std::int32_t vocabulary = 37;

/// Models of every operator that has code for rows: a window on the second layer, normalised heads, biases, a tied head; heads
/// that are turned in part; ALiBi; learned positions; adapters.
template <class Device, class T>
std::vector<graph::Graph<Device, T>> session_models() {
  nn::LlamaConfig llama;
  llama.layers = 2;
  llama.heads = 4;
  llama.kv_heads = 2;
  llama.channels = 24;
  llama.hidden = 40;
  llama.vocabulary = vocabulary;
  llama.context = 300;
  llama.sequence = 8;
  llama.head_size = 10;
  llama.window = 9;
  llama.window_from = 1;
  llama.norm_heads = true;
  llama.query_bias = true;
  llama.tied = true;
  nn::GptNeoxConfig neox{.layers = 1, .heads = 3, .channels = 30, .hidden = 40, .vocabulary = vocabulary, .context = 300};
  neox.sequence = 8;
  neox.turned = 4;
  nn::GptConfig gpt;
  gpt.layers = 1;
  gpt.heads = 2;
  gpt.channels = 16;
  gpt.vocabulary = vocabulary;
  gpt.context = 300;
  gpt.sequence = 8;
  const auto plain = nn::llama<Device, T>(llama, 1);
  return {plain,
          nn::with_lora(plain, {.rank = 3, .alpha = 5, .targets = {"q_proj", "down_proj"}}),
          nn::gpt<Device, T>(gpt, 1),
          nn::bloom<Device, T>({.layers = 1, .heads = 3, .channels = 24, .vocabulary = vocabulary, .context = 300, .sequence = 8}, 1),
          nn::gpt_neox<Device, T>(neox, 1)};
}

template <class Device, class T>
class ServedOn {
public:
  ServedOn(const graph::Graph<Device, T>& model, const nn::SessionOptions& options) : session_(device_, model, options) {
    for (const auto& [id, values] : Point<sum_t<T>>::make(model.dag(), vocabulary).parameters) {
      session_.set_parameter(model.dag().parameter_at(id).name, values);
    }
  }
  nn::Session<Device, T>* operator->() { return &session_; }

  /// Returns the likeliest tokens behind a prompt, one at a time, and the logits of each.
  std::pair<Tokens, Logits> greedy(const Tokens& prompt, int count) {
    const int sequence = session_.open();
    Tokens found;
    Logits logits;
    Tokens next = prompt;
    for (int i = 0; i < count; ++i) {
      const auto row = session_.append({{sequence, next}}).row(0);
      logits.emplace_back(row.begin(), row.end());
      next = {static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin())};
      found.push_back(next[0]);
    }
    session_.close(sequence);
    return {found, logits};
  }
  /// Returns the logits behind each token of a sequence of its own, `chunk` tokens at a time.
  Logits read(const Tokens& tokens, std::size_t chunk) {
    const int sequence = session_.open();
    Logits logits;
    for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
      const std::span part = std::span(tokens).subspan(begin, std::min(chunk, tokens.size() - begin));
      const nn::Logits got = session_.append({{sequence, part, true}});
      for (std::int64_t i = 0; i < got.rows(); ++i) logits.emplace_back(got.row(i).begin(), got.row(i).end());
    }
    session_.close(sequence);
    return logits;
  }

private:
  Device device_{typename Device::Options{}};
  nn::Session<Device, T> session_;
};

Tokens drawn_sequence(std::int64_t count, std::uint64_t seed) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(random_bits({.seed = seed}, static_cast<std::uint64_t>(i)) % vocabulary));
  }
  return tokens;
}

class CudaSession : public CudaRows<float> {};

TEST_F(CudaSession, has_the_hosts_greedy_tokens_whatever_the_model) {
  const auto on_host = session_models<Host, float>();
  const auto on_cuda = session_models<Cuda, float>();
  const nn::SessionOptions options{.positions = 24, .rows = 5};
  for (std::size_t m = 0; m < on_host.size(); ++m) {
    ServedOn<Host, float> host(on_host[m], options);
    ServedOn<Cuda, float> cuda(on_cuda[m], options);
    const auto [wanted, logits] = host.greedy(drawn_sequence(9, m), 12);
    const auto [got, own] = cuda.greedy(drawn_sequence(9, m), 12);
    EXPECT_EQ(got, wanted) << "model " << m;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double largest = std::abs(*std::max_element(logits[i].begin(), logits[i].end()));
      for (std::size_t n = 0; n < logits[i].size(); ++n) ASSERT_NEAR(own[i][n], logits[i][n], 1e-5 * (1 + largest)) << "model " << m;
    }
  }
}

TEST_F(CudaSession, has_the_hosts_greedy_tokens_in_every_form_of_weights_and_states) {
  const auto on_host = session_models<Host, float>();
  const auto on_cuda = session_models<Cuda, float>();
  for (const auto weights : weight_forms()) {
    const auto states = static_cast<StateForm>(static_cast<int>(weights) % 3);
    const nn::SessionOptions options{
        .positions = 24, .rows = 7, .weights = weights, .states = states, .outliers = 16};  // of int8
    ServedOn<Host, float> host(on_host[0], options);
    ServedOn<Cuda, float> cuda(on_cuda[0], options);
    EXPECT_EQ(cuda.greedy(drawn_sequence(9, 5), 10).first, host.greedy(drawn_sequence(9, 5), 10).first)
        << "form " << static_cast<int>(weights);
  }
}

template <class T>
class CudaSessionLaws : public CudaRows<T> {};
using SessionElements = testing::Types<float, Bfloat16>;
TYPED_TEST_SUITE(CudaSessionLaws, SessionElements);

TYPED_TEST(CudaSessionLaws, a_sequence_has_the_same_bits_in_any_chunks_beside_others_and_forked) {
  using T = TypeParam;
  const auto models = session_models<Cuda, T>();
  for (std::size_t m = 0; m < models.size(); ++m) {
    const nn::SessionOptions options{.positions = 80, .sequences = 3, .rows = 33,
                                     .weights = weight_forms()[m % weight_forms().size()],
                                     .states = static_cast<StateForm>(m % 3)};
    ServedOn<Cuda, T> served(models[m], options);
    const Tokens text = drawn_sequence(70, m);
    const Logits wanted = served.read(text, 1);
    EXPECT_EQ(served.read(text, 70), wanted) << "model " << m;  // each from all before it, none of which was kept
    EXPECT_EQ(served.read(text, 9), wanted) << "model " << m;
    // Two sequences side by side, one of which is a fork that was cut.
    const int first = served->open();
    served->append({{first, std::span(text).first(66)}});
    const int second = served->fork(first);
    served->truncate(second, 40);
    const nn::Logits both = served->append({{first, std::span(text).subspan(66, 2)}, {second, std::span(text).subspan(40, 5)}});
    ASSERT_EQ(both.rows(), 2);
    EXPECT_EQ(std::vector<float>(both.row(0).begin(), both.row(0).end()), wanted[67]) << "model " << m;
    EXPECT_EQ(std::vector<float>(both.row(1).begin(), both.row(1).end()), wanted[44]) << "model " << m;
  }
}

}  // namespace
}  // namespace reef::test
