// As skipped_test.cpp, of optimizers that are ahead of what counts, and of ranks that step on their own.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/pipeline/one_f_one_b.hpp>

#include "skipped.hpp"

namespace reef::test {
namespace {

using namespace skipped;

using Ahead = Trainer<pipeline::OneFOneB<>, optim::Acco<optim::AdamW>, Coded>;
using Alone = Trainer<pipeline::OneFOneB<>, optim::DiLoCo<optim::AdamW, optim::Sgd>, Coded>;

/// Whichever micro-batch of a round is spoilt, of either phase.
void expect_to_go_on(const Ahead::Options& options, const std::string& what) {
  const comm::Communicator world;
  const auto each = static_cast<std::uint64_t>(options.topology->replicas) * of_replica * 2;
  for (std::uint64_t spoilt = 0; spoilt < each; ++spoilt) {
    SCOPED_TRACE(concat(what, ", micro-batch ", spoilt));
    Ahead trainer(model(), source(Spoils::spoilt, {.each = each, .spoilt = spoilt}), options, {},
                  world);
    left_by(trainer, 8, 11);
  }
}

TEST(SkippedStep, of_rounds_that_overlap_is_behind_what_stages_remember) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  auto options = options_with<Ahead>(run::Topology(1, world_size()));
  for (const Chosen& codec : codecs()) {
    options.compress.activation = options.compress.activation_gradient = codec;
    expect_to_go_on(options, codec.text());
  }
}

TEST(SkippedStep, of_rounds_that_overlap_is_behind_gradients_and_weights) {
  auto options = options_with<Ahead>(run::Topology(world_size()));
  for (const Chosen& codec : codecs()) {
    options.compress.gradient = codec;
    options.compress.parameter = sends_all(codec) ? codec : Chosen();
    expect_to_go_on(options, codec.text());
  }
}

/// The last replica's step is spoilt, or has no weight there: the others have theirs.
void expect_no_trace(const Alone::Options& options, const std::string& what) {
  SCOPED_TRACE(what);
  const comm::Communicator world;
  const auto each = static_cast<std::uint64_t>(options.topology->replicas) * of_replica;
  const Place at{
      .each = each, .spoilt = each - of_replica, .first_without_weight = each - of_replica};
  const auto left = [&](Spoils spoils) {
    Alone trainer(model(), source(spoils, at), options, {}, world);
    return left_by(trainer, 7, 8, true);
  };
  EXPECT_EQ(left(Spoils::spoilt).difference(left(Spoils::nothing)), "");
}

TEST(SkippedStep, of_one_rank_leaves_nothing_in_differences_of_outer_steps) {
  auto options = options_with<Alone>(run::Topology(world_size()));
  options.optim.every = 2;
  for (const Chosen& codec : codecs()) {
    options.compress.pseudo_gradient = codec;
    expect_no_trace(options, codec.text());
  }
}

TEST(SkippedStep, of_one_rank_leaves_nothing_in_what_its_stages_send_each_other) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  auto options = options_with<Alone>(run::Topology(1, world_size()));
  options.optim.every = 2;
  for (const Chosen& codec : codecs()) {
    options.compress.activation = options.compress.activation_gradient = codec;
    expect_no_trace(options, codec.text());
  }
}

}  // namespace
}  // namespace reef::test
