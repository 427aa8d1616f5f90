// Optimizers whose gradients are taken ahead of the committed weights, over stages that share parameters.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <reef/comm/communicator.hpp>
#include <reef/core/text.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/random_stages.hpp"
#include "../support/resumed_stages.hpp"

namespace reef::test::random_stages {
namespace {

/// The first models that share parameters between stages.
template <class Optim>
void expect_bits_of_one_process(int models) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  for (std::uint64_t seed = 1; models > 0; ++seed) {
    const Model model = random_model(seed);
    const Instance one = random_instance(seed, static_cast<int>(seed), model.dag(), world.size());
    if (!reach_of(model.dag(), one).tied) continue;
    --models;
    SCOPED_TRACE(one.text);
    const Trained spread = train_spread<Optim>(seed, one, world);
    const Trained alone = train_alone<Optim>(seed, one, self);
    EXPECT_EQ(spread.numbers, alone.numbers);
    for (const auto& [name, values] : spread.weights) EXPECT_EQ(values, alone.weights.at(name)) << name;
  }
}

TEST(StagesAhead, train_to_the_bits_of_one_process_with_acco_by_prediction) {
  expect_bits_of_one_process<optim::AccoWp<optim::AdamW>>(8);
}
TEST(StagesAhead, train_to_the_bits_of_one_process_with_dpu_by_prediction) {
  expect_bits_of_one_process<optim::DpuPredicted<optim::AdamW>>(4);
}
TEST(StagesAhead, are_resumed_on_other_stages) {
  expect_resumed_on_other_stages<optim::AccoWp<optim::AdamW>>();
}

/// An optimizer of one's own, which knows nothing of tied copies.
struct Unaware : optim::AccoWp<optim::AdamW> {
  static void reserve(run::StepBuilder& builder) {
    AccoWp::reserve(builder);
    builder.tied_buffer.assign(builder.tied_buffer.size(), run::no_storage);
  }
};

TEST(StagesAhead, need_a_place_for_the_committed_weights_of_copies) {
  const auto refusal = [](int stages) -> std::string {
    Piped<Unaware>::Options options;
    options.topology = run::Topology(1, stages);
    options.pipeline.schedule = "1f1b";
    try {
      (void)Piped<Unaware>::programs(nn::gpt<device::Host, float>(small_config(), 1), options, stages);
    } catch (const ScheduleError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal(1), "none");
  EXPECT_NE(refusal(2).find("reserves no place for the committed weights of transformer.wte.weight"), std::string::npos) << refusal(2);
}

}  // namespace
}  // namespace reef::test::random_stages
