#include <reef/torch/data_parallel.hpp>

#include <gtest/gtest.h>

#include <cstdint>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/chain.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>

#include "../support/overlapping_trainers.hpp"
#include "small_net.hpp"

// A libtorch module under each way to train it on several ranks.

namespace reef::test {
namespace {

using Acco = optim::Acco<optim::AdamW>;
using DiLoCo = optim::DiLoCo<optim::AdamW, optim::Sgd>;
using SparseCodec = codec::ErrorFeedback<codec::Chain<codec::ChunkTopK, codec::TwoBit>>;
using Sparse = compress::Channels<compress::PseudoGradient<SparseCodec>>;

/// Losses of the first of `steps` steps, and held-out ones of the weights at the end; batches are of 7 kinds.
template <class... Policies>
void expect_to_learn(const rt::DataParallelOptions<Policies...>& options, int steps) {
  const comm::Communicator world;
  auto training = rt::data_parallel(small_net(), loss_of, batch_of(0), options, &world);
  const double before = training.evaluate(batch_of, 4);
  for (int step = 0; step < steps; ++step) training.step(batch_of);
  EXPECT_LT(training.evaluate(batch_of, 4), before / 2);
  if (world.size() > 1) {
    const auto mine = values_of(training.state_dict());
    auto of_rank_0 = mine;
    for (auto& values : of_rank_0) MPI_Bcast(values.data(), static_cast<int>(values.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
    EXPECT_EQ(mine, of_rank_0);  // the committed weights are the same on all ranks
  }
}

template <class... Policies>
rt::DataParallelOptions<Policies...> learning_options() {
  auto options = net_options<Policies...>();
  options.learning_rate = {.peak = 0.01};
  return options;
}

TEST(DataParallelPolicies, ddp_and_zero1_learn) {
  expect_to_learn(learning_options<optim::Ddp<optim::AdamW>>(), 60);
  expect_to_learn(learning_options<optim::Zero1<optim::AdamW>>(), 60);
}

/// Of blocks whose scale one number that is not finite would spoil, and of what a rank remembers of the codec's errors.
template <class Optimizer, class Codec>
void expect_no_trace_of_a_skipped_step() {
  const comm::Communicator world;
  auto options = learning_options<Optimizer, compress::Channels<compress::Gradient<Codec>>>();
  options.non_finite = optim::NonFinite::skip;
  const auto left = [&](bool spoilt) {
    auto training = rt::data_parallel(small_net(), loss_of, batch_of(0), options, &world);
    for (std::uint64_t step = 0; step < 6; ++step) {
      if (spoilt && step == 2) {
        rt::Tensors batch = batch_of(9);
        if (world.rank() + 1 == world.size()) batch[0] = batch[0] / 0.0;
        const StepResult result = training.step(batch);
        EXPECT_FALSE(result.committed);
        EXPECT_NE(result.not_finite, "");
      }
      const StepResult result = training.step(batch_of(step));
      EXPECT_TRUE(result.committed) << result.not_finite;
    }
    return values_of(training.state_dict());
  };
  EXPECT_EQ(left(true), left(false));
}

TEST(DataParallelPolicies, a_step_that_is_not_finite_leaves_nothing_behind) {
  expect_no_trace_of_a_skipped_step<optim::Zero1<optim::AdamW>, codec::Blockwise8>();
  expect_no_trace_of_a_skipped_step<optim::Ddp<optim::AdamW>, codec::ErrorFeedback<codec::TwoBit>>();
}

TEST(DataParallelPolicies, acco_learns) { expect_to_learn(learning_options<Acco>(), 60); }

TEST(DataParallelPolicies, acco_learns_where_the_clock_counts_micro_batches) {
  auto options = learning_options<Acco>();
  options.accumulation = Accumulation::capped(4);
  expect_to_learn(options, 60);
}

TEST(DataParallelPolicies, acco_has_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  auto options = net_options<Acco>(2);
  auto spread = rt::data_parallel(small_net(0.1), loss_of, batch_of(0), options, &world);
  options.virtual_ranks = world.size();
  auto alone = rt::data_parallel(small_net(0.1), loss_of, batch_of(0), options, &self);
  EXPECT_EQ(outcome_after(spread, 3), outcome_after(alone, 3));
}

TEST(DataParallelPolicies, diloco_learns) {
  auto options = learning_options<DiLoCo>();
  options.optim.every = 5;
  expect_to_learn(options, 60);
}

TEST(DataParallelPolicies, sparse_diloco_learns) {
  auto options = learning_options<DiLoCo, Sparse>();
  options.optim.every = 5;
  options.compress.pseudo_gradient.decay = 0.95F;
  options.compress.pseudo_gradient.inner.selection = {.chunk = 64, .keep = 16};
  expect_to_learn(options, 100);
}

}  // namespace
}  // namespace reef::test
