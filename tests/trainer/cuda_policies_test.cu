// Further optimizers, swap policies and precisions on a GPU, one of each in some composition: swapped, so
// that what rounds hand to each other lies in the host's memory too.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <reef/comm/mpi.hpp>
#include <reef/nn/cuda.cuh>
#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/momentum.hpp>
#include <reef/optim/per_group.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using device::Cuda;
using optim::AdamW;

template <class Tested>
class CudaPolicies : public testing::Test {
protected:
  static constexpr bool is_diloco = Tested::Optim::name == optim::DiLoCo<AdamW>::name;

  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  }

  static auto options() {
    auto options = uneven_options<Tested>();
    options.device.poison_freed = true;
    if constexpr (is_diloco) options.optim.every = 2;
    return options;
  }
};

using Rules = optim::PerGroup<AdamW, optim::Momentum, AdamW>;
using Cases =
    testing::Types<Trainer<Cuda, swap::Atom<>, optim::Acco<AdamW>, precision::Bf16Gradients<>>,
                   Trainer<Cuda, swap::Atom<>, optim::DiLoCo<Rules>>,
                   Trainer<Cuda, swap::PaperAtom, optim::AccoWp<Rules>>,
                   Trainer<Cuda, swap::LayerStreaming, optim::Dpu<AdamW, 1>, precision::Fp64>>;
TYPED_TEST_SUITE(CudaPolicies, Cases);

TYPED_TEST(CudaPolicies, give_the_same_bits_wherever_weights_live_and_whatever_is_kept) {
  using Tested = TypeParam;
  auto options = this->options();
  options.activations = {Activations::recompute};
  const auto expected = train<Tested>(options);
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  options.activations = {Activations::stash};
  EXPECT_EQ(train<Tested>(options), expected);
  if constexpr (requires { Tested::Swap::allows_resident_segments; }) {
    options.swapping = run::SwapSchedule{.weight_slots = 3, .resident_segments = 2};
    EXPECT_EQ(train<Tested>(options), expected) << "two segments stay";
  }
}

TYPED_TEST(CudaPolicies, give_on_p_ranks_the_bits_of_one_process_that_stands_for_p) {
  using Tested = TypeParam;
  if constexpr (TestFixture::is_diloco) {
    GTEST_SKIP() << "its ranks have weights of their own";
  } else {
    const auto counts = uneven_counts(world_size());
    EXPECT_EQ(train<Tested>(this->options()),
              train<Tested>(alone_options<Tested>(counts), 4, MPI_COMM_SELF));
  }
}

TYPED_TEST(CudaPolicies, go_on_from_what_they_saved) {
  using Tested = TypeParam;
  const SharedFolder folder("cuda");
  const comm::Communicator world;
  const auto rest = [&] {
    Tested trainer = small_trainer<Tested>(this->options(), world);
    outcome_of(trainer, 2);
    checkpoint::save(trainer, folder.path());
    return outcome_of(trainer, 2);
  }();
  Tested trainer = small_trainer<Tested>(this->options(), world);
  EXPECT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
  EXPECT_EQ(outcome_of(trainer, 2), rest);
}

TYPED_TEST(CudaPolicies, learn) {
  using Tested = TypeParam;
  auto steady = this->options();
  steady.learning_rate = {.peak = 0.01};
  const auto outcome = train<Tested>(steady, 16);
  EXPECT_NEAR(outcome.losses.front(), std::log(37.0), 0.3);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.2);
}

}  // namespace
}  // namespace reef::test
