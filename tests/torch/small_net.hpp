#pragma once

#include <reef/torch/data_parallel.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../support/small_gpt.hpp"

// A small torch::nn::Sequential that data_parallel trains, and what a training of it leaves behind.

namespace reef::test {

namespace rt = reef::torch;
using Net = ::torch::nn::SequentialImpl;

inline std::shared_ptr<Net> small_net(double dropout = 0, std::uint64_t seed = 5) {
  namespace nn = ::torch::nn;
  ::torch::manual_seed(seed);
  const nn::Sequential net(nn::Linear(12, 24), nn::GELU(), nn::LayerNorm(nn::LayerNormOptions({24})), nn::Dropout(dropout),
                           nn::Linear(24, 24), nn::ReLU(), nn::Linear(24, 5));
  return net.ptr();
}

/// Numbers and classes that follow from the number of the micro-batch alone: (6, 12) and (6,).
inline rt::Tensors batch_of(std::uint64_t micro_batch) {
  const at::Tensor x = (at::arange(72, at::kFloat).view({6, 12}) * (0.3 + 0.1 * static_cast<double>(micro_batch % 7))).sin();
  return {x, x.slice(1, 0, 5).argmax(1)};
}

inline at::Tensor loss_of(const at::Tensor& output, const rt::Tensors& batch) {
  return ::torch::nn::functional::cross_entropy(output, batch[1]);
}

/// small_options, and as many nodes as the net allows.
template <class... Policies>
rt::DataParallelOptions<Policies...> net_options(int micro_batches = 1) {
  rt::DataParallelOptions<Policies...> options;
  static_cast<typename Trainer<Policies...>::Options&>(options) = small_options<Trainer<Policies...>>();
  options.micro_batches = {micro_batches};
  options.node_bytes = 1;
  return options;
}

struct NetOutcome {
  std::vector<double> losses;
  std::vector<std::vector<float>> tensors;
  friend bool operator==(const NetOutcome&, const NetOutcome&) = default;
};

inline std::vector<std::vector<float>> values_of(const rt::StateDict& tensors) {
  std::vector<std::vector<float>> values;
  for (const auto& entry : tensors) {
    const at::Tensor rows = entry.value().contiguous();
    values.emplace_back(rows.data_ptr<float>(), rows.data_ptr<float>() + rows.numel());
  }
  return values;
}

template <class DataParallel>
NetOutcome outcome_after(DataParallel& training, int steps, const rt::NextBatch& next = batch_of) {
  NetOutcome outcome;
  for (int i = 0; i < steps; ++i) outcome.losses.push_back(training.step(next).loss);
  outcome.tensors = values_of(training.state_dict());
  return outcome;
}

/// Fails the test unless the function throws an E that says this.
template <class E, class F>
void expect_error(const F& function, const std::string& text) {
  try {
    function();
    ADD_FAILURE() << "no exception that says: " << text;
  } catch (const E& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

}  // namespace reef::test
