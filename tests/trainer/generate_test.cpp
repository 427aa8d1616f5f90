#include <reef/trainer/generate.hpp>

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/mpi.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>

#include "../support/small_gpt.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using Zero1Trainer = Trainer<optim::Zero1<optim::AdamW>>;
using Tokens = std::vector<std::int32_t>;

const auto& one_sequence() {
  static const auto model = [] {
    nn::GptConfig config = small_config();
    config.batch = 1;
    return nn::gpt<device::Host, float>(config, 1);
  }();
  return model;
}

TEST(Generate, on_all_ranks_gives_the_tokens_of_one_process_in_their_place) {
  const auto texts = [](const Zero1Trainer::Options& options, MPI_Comm ranks) {
    const comm::Communicator communicator(ranks);
    auto trainer = small_trainer<Zero1Trainer>(options, communicator);
    for (int i = 0; i < 3; ++i) trainer.step();
    std::vector<Tokens> found;
    for (const double temperature : {0.0, 1.0}) {
      found.push_back(generate(trainer, one_sequence(), Tokens{1, 2, 3},
                               {.tokens = 20, .temperature = temperature, .seed = 5}));
    }
    return found;
  };
  EXPECT_EQ(texts(uneven_options<Zero1Trainer>(), MPI_COMM_WORLD),
            texts(alone_options<Zero1Trainer>(uneven_counts(world_size())), MPI_COMM_SELF));
}

TEST(Generate, between_steps_changes_nothing_of_the_training) {
  const auto train = [](bool and_generate) {
    const comm::Communicator world;
    auto trainer = small_trainer<Zero1Trainer>(small_options<Zero1Trainer>(), world);
    trainer.step();
    // One rank alone, as a program does that prints a sample.
    if (and_generate && trainer.rank() == 0) {
      generate(trainer, one_sequence(), Tokens{1}, {.tokens = 3});
    }
    return outcome_of(trainer, 2);
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Generate, follows_the_weights) {
  const comm::Communicator world;
  auto trainer = small_trainer<Zero1Trainer>(small_options<Zero1Trainer>(), world);
  const auto text = [&] {
    return generate(trainer, one_sequence(), Tokens{1, 2, 3}, {.tokens = 10, .temperature = 0});
  };
  EXPECT_EQ(text(), text());
  // A head that knows one token: its row is the only one that is not zero.
  const std::size_t rows = 37 * 21;
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> wte(rows, 0.0F);
    for (std::size_t i = 0; i < 21; ++i) wte[7 * 21 + i] = sign;
    trainer.set_parameter("transformer.wte.weight", wte);
    std::vector<float> ones(21, 1.0F);
    trainer.set_parameter("transformer.ln_f.bias", ones);
    trainer.set_parameter("transformer.ln_f.weight", std::vector<float>(21, 0.0F));
    const Tokens found = text();
    for (std::size_t i = 3; i < found.size(); ++i) EXPECT_EQ(found[i], sign > 0 ? 7 : 0);
  }
}

TEST(Generate, needs_the_models_parameters) {
  const comm::Communicator world;
  auto trainer = small_trainer<Zero1Trainer>(small_options<Zero1Trainer>(), world);
  nn::GptConfig config = small_config();
  config.batch = 1;
  config.layers = 3;
  const auto deeper = nn::gpt<device::Host, float>(config, 1);
  EXPECT_THROW(generate(trainer, deeper, Tokens{1}), ShapeError);
}

}  // namespace
