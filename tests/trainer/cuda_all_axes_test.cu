// All four axes in one Trainer on GPUs: what each of them leaves as it is, and the memory that was foreseen.

#include <gtest/gtest.h>

#include <string>

#include <reef/comm/mpi.hpp>
#include <reef/compress/cuda.cuh>
#include <reef/nn/cuda.cuh>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/same_bits.hpp"
#include "all_axes.hpp"

namespace reef::test {
namespace {

namespace all_axes {

using namespace test::all_axes;
using device::Cuda;
using OnCuda = Spread<swap::Atom<>, Cuda>;
using StaysOnCuda = Spread<swap::Resident, Cuda>;

constexpr int steps = 3;

template <class TrainerType>
typename TrainerType::Options on_ranks(double ratio) {
  return options<TrainerType>(1, world_size(), ratio);
}

template <class TrainerType>
Outcome<float> trained(const typename TrainerType::Options& options) {
  return train<TrainerType>(options, steps, MPI_COMM_WORLD, config());
}

class CudaAllAxes : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  }
};

TEST_F(CudaAllAxes, have_the_bits_of_stages_that_stay_on_their_devices) {
  const auto expected = trained<StaysOnCuda>(on_ranks<StaysOnCuda>(4));
  EXPECT_EQ(expected == trained<StaysOnCuda>(on_ranks<StaysOnCuda>(1)), world_size() == 1) << "what is left out is missed";
  EXPECT_TRUE(same_bits(trained<OnCuda>(on_ranks<OnCuda>(4)), expected));
  auto stashed = on_ranks<OnCuda>(4);
  stashed.swapping =
      run::SwapSchedule{.weight_slots = 3, .per_micro_batch = true, .stash_slots = 1};
  stashed.activations = {Activations::stash};
  stashed.pipeline.unit = 2;
  EXPECT_TRUE(same_bits(trained<OnCuda>(stashed), expected));
}

TEST_F(CudaAllAxes, go_on_with_their_bits_after_a_resume_in_the_memory_that_was_estimated) {
  const comm::Communicator world;
  const SharedFolder folder("cuda-all-axes");
  const auto set = on_ranks<OnCuda>(4);
  const auto undisturbed = trained<OnCuda>(set);
  {
    auto trainer = small_trainer<OnCuda>(set, world, config());
    outcome_of(trainer, 1);
    const StepEstimate estimate = OnCuda::estimate(trainer.model(), set, world.size(), world.rank(), counts_of(1));
    EXPECT_EQ(trainer.device().memory().peak, estimate.device_bytes);
    checkpoint::save(trainer, folder.path());
  }
  auto resumed = small_trainer<OnCuda>(set, world, config());
  ASSERT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
  EXPECT_TRUE(same_bits(outcome_of(resumed, steps - 1).weights, undisturbed.weights));
}

}  // namespace all_axes
}  // namespace
}  // namespace reef::test
