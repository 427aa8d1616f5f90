// As skipped_test.cpp, of what is remembered of samples that come again, and of ratios that are planned while training.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <reef/codec/delta.hpp>
#include <reef/codec/fp8.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/codec/uniform8.hpp>
#include <reef/compress/ada_top_k.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>

#include "skipped.hpp"

namespace reef::test {
namespace {

using namespace skipped;

using Changes = compress::Channels<compress::Activation<codec::Delta<codec::Uniform8>>,
                                   compress::ActivationGradient<codec::Delta<codec::Fp8>>>;
template <class Compress>
using Staged = Trainer<pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, Compress>;

template <class TrainerType>
Left left(Spoils spoils, const typename TrainerType::Options& options, std::uint64_t period) {
  const comm::Communicator world;
  TrainerType trainer(model(), source(spoils, {.each = of_replica, .spoilt = 0, .period = period}),
                      options, {}, world);
  return left_by(trainer, 9, 11);
}

/// Of those that never were the memory would be of other steps: what is left is compared with a step without weights alone.
TEST(SkippedStep, leaves_nothing_in_what_is_remembered_of_samples) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  auto options = options_with<Staged<Changes>>(run::Topology(1, world_size()));
  options.compress.activation.period = options.compress.activation_gradient.period = 3;
  const Left spoilt = left<Staged<Changes>>(Spoils::spoilt, options, 3);
  EXPECT_EQ(spoilt.difference(left<Staged<Changes>>(Spoils::nothing, options, 3)), "");
}

TEST(SkippedStep, leaves_nothing_in_masks_and_in_ratios_that_are_planned_again) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  using Adapted = Staged<compress::AdaTopK>;
  auto options = options_with<Adapted>(run::Topology(1, world_size()));
  options.compress.activation.ratio = 8;
  std::vector<run::EdgeRatios> log;
  options.compress.replan.every = 2;
  options.compress.replan.tolerance = 0;
  options.compress.replan.told = [&log](const run::EdgeRatios& ratios) { log.push_back(ratios); };
  const Left planned = left<Adapted>(Spoils::spoilt, options, 0);
  options.compress.replan = {.replay = log};
  const Left spoilt = left<Adapted>(Spoils::spoilt, options, 0);
  EXPECT_EQ(planned.difference(spoilt), "") << "the log has what was planned";
  EXPECT_EQ(spoilt.difference(left<Adapted>(Spoils::nothing, options, 0)), "");
  EXPECT_EQ(spoilt.difference(left<Adapted>(Spoils::left_out, options, 0)), "");
}

}  // namespace
}  // namespace reef::test
