// Ranks that say themselves which micro-batches they compute.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/core/error.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using NumberedTrainer = Trainer<optim::Ddp<optim::AdamW>>;
using MicroBatches = std::vector<std::uint64_t>;

/// Passes on, and writes down which micro-batch was asked for.
run::Source noting_source(MicroBatches& asked) {
  return [&asked, source = small_source()](std::uint64_t first, std::span<const AnyView> inputs) {
    asked.push_back(first / static_cast<std::uint64_t>(small_config().batch));
    return source(first, inputs);
  };
}

NumberedTrainer numbered(run::Source source, NumberedTrainer::Options options) {
  return NumberedTrainer(nn::gpt<device::Host, float>(small_config(), 1), std::move(source), std::move(options), {},
                         comm::Communicator::alone());
}

NumberedTrainer::Options options_with(MicroBatches numbers) {
  auto options = small_options<NumberedTrainer>();
  options.micro_batches = {2};
  options.next_micro_batch = [numbers, next = std::make_shared<std::size_t>(0)] { return numbers.at((*next)++); };
  return options;
}

}  // namespace

TEST(NextMicroBatch, says_which_are_computed_and_nothing_else_changes) {
  MicroBatches asked;
  auto trainer = numbered(noting_source(asked), options_with({7, 2, 2, 11}));
  outcome_of(trainer, 2);
  EXPECT_THAT(asked, testing::ElementsAre(7, 2, 2, 11));
  EXPECT_EQ(trainer.progress_state().micro_batch, 4U);

  auto given = numbered(small_source(), options_with({0, 1, 2, 3}));
  auto options = options_with({});
  options.next_micro_batch = {};
  auto planned = numbered(small_source(), options);
  EXPECT_EQ(outcome_of(given, 2), outcome_of(planned, 2));
}

TEST(NextMicroBatch, is_asked_once_for_each_also_where_a_step_is_looked_at_again) {
  MicroBatches asked;
  auto options = options_with({4, 9, 5, 6});
  options.non_finite = optim::NonFinite::skip;
  auto trainer = numbered(noting_source(asked), options);
  trainer.step();
  std::vector<float> weights = trainer.parameter("transformer.wte.weight");
  weights[3] = std::numeric_limits<float>::quiet_NaN();
  trainer.set_parameter("transformer.wte.weight", weights);
  EXPECT_THAT(trainer.step().not_finite, testing::HasSubstr("element 3 of 'transformer.wte.weight'"));
  EXPECT_THAT(asked, testing::ElementsAre(4, 9, 5, 6, 5, 6));
}

TEST(NextMicroBatch, is_refused_beside_another_order) {
  auto options = options_with({});
  options.accumulation.order = Accumulation::Order::shared;
  options.accumulation.adapts = true;
  EXPECT_THAT([&] { options.validate(); },
              testing::ThrowsMessage<OptionError>(testing::HasSubstr("both number micro-batches")));
}

}  // namespace reef::test
