#pragma once

// A small GPT that is swapped through the device, and the same that stays.

#include <utility>

#include <gtest/gtest.h>

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/swap/atom.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {

using Resident = Trainer<optim::Ddp<optim::AdamW>>;
using Swapped = Trainer<swap::Atom<>, optim::Ddp<optim::AdamW>>;

inline nn::GptConfig deep(float dropout) {
  nn::GptConfig config = small_config();
  config.layers = 6;
  config.dropout = dropout;
  return config;
}

/// What a run leaves behind, and its loss on held-out text.
template <class TrainerType>
auto left_by(typename TrainerType::Options options, float dropout) {
  TrainerType trainer(nn::gpt<device::Host, float>(deep(dropout), 1), small_source(), options,
                      small_source());
  const auto outcome = outcome_of(trainer, 3);
  return std::pair(outcome, trainer.evaluate(2));
}

/// What plans and memory are, one process says as well as several.
class SwapAlone : public testing::Test {
protected:
  void SetUp() override {
    if (world_size() > 1) GTEST_SKIP() << "one process is enough";
  }
};

}  // namespace reef::test
