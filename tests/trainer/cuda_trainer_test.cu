#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>

#include <reef/graph/measure.hpp>
#include <reef/nn/cuda.cuh>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/swap/atom.hpp>

#include "../laws/trainer.hpp"

namespace reef::test {
namespace {

using device::Cuda;
using CudaDdp = Trainer<Cuda, optim::Ddp<optim::AdamW>>;
using CudaZero1 = Trainer<Cuda, optim::Zero1<optim::AdamW>>;
using CudaBf16 = Trainer<Cuda, optim::Zero1<optim::AdamW>, precision::Bf16>;
using CudaAtom = Trainer<Cuda, swap::Atom<>, optim::Zero1<optim::AdamW>>;

/// All ranks share the first device; where none answers, all ranks skip.
std::string unavailable_here() {
  std::string why;
  return device::cuda_available(&why) ? std::string() : why;
}

template <class Tested>
struct OnCuda : TrainerCase<Tested, CudaDdp> {
  static std::string unavailable() { return unavailable_here(); }
};

}  // namespace

using CudaCases = testing::Types<OnCuda<CudaDdp>, OnCuda<CudaZero1>>;
INSTANTIATE_TYPED_TEST_SUITE_P(AdamW, TrainerLaws, CudaCases);

namespace {

// The Trainer is made in another unit, which knows of no CUDA, and destroyed in this one: needs no device.
TEST(CudaUnit, has_the_host_trainer_of_a_unit_without_cuda) {
  using HostZero1 = Trainer<optim::Zero1<optim::AdamW>>;
  const auto host = train<HostZero1>(uneven_options<HostZero1>());
  for (const double loss : host.losses) EXPECT_NEAR(loss, std::log(37.0), 0.5);
}

class CudaTrainer : public testing::Test {
protected:
  void SetUp() override {
    if (const std::string why = unavailable_here(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(CudaTrainer, its_losses_are_those_of_the_host) {
  using HostZero1 = Trainer<optim::Zero1<optim::AdamW>>;
  const auto host = train<HostZero1>(uneven_options<HostZero1>());
  const auto cuda = train<CudaZero1>(uneven_options<CudaZero1>());
  ASSERT_EQ(cuda.losses.size(), host.losses.size());
  // The same samples, the same dropout; only the order of sums differs.
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(cuda.losses[i], host.losses[i], 1e-4 * host.losses[i]) << "step " << i;
    EXPECT_NEAR(cuda.norms[i], host.norms[i], 1e-3 * host.norms[i]) << "step " << i;
  }
}

TEST_F(CudaTrainer, swapped_through_the_device_gives_the_bits_of_a_model_that_stays) {
  const auto expected = train<CudaZero1>(uneven_options<CudaZero1>());
  for (const Activations activations : run::all_activations) {
    auto options = uneven_options<CudaAtom>();
    options.activations = {activations};
    EXPECT_EQ(train<CudaAtom>(options), expected);
  }
  auto planned = uneven_options<CudaAtom>();
  planned.device.memory_bytes = 400'000;
  planned.device.poison_freed = true;
  EXPECT_EQ(train<CudaAtom>(planned), expected);
  const auto model = [] { return nn::gpt<Cuda, float>(small_config(), 1); };
  const comm::Communicator world;
  const auto counts = uneven_counts(world.size());
  const Bytes foreseen =
      CudaAtom::estimate(model(), planned, world.size(), world.rank(), counts).device_bytes;
  CudaAtom trainer(model(), small_source(), planned, {}, world);
  trainer.step();
  EXPECT_EQ(trainer.device().memory().peak, foreseen);
  EXPECT_LE(foreseen, planned.device.memory_bytes);
}

TEST_F(CudaTrainer, is_planned_by_a_profile_of_the_device) {
  Cuda device;
  const auto model = nn::gpt<Cuda, float>(small_config(), 1);
  graph::MeasureOptions measuring;
  measuring.repeats = 2;
  measuring.classes = 37;
  const profile::Profile profile = graph::measure(device, model, measuring);
  EXPECT_EQ(profile.device, "cuda");
  EXPECT_GT(profile.host_bytes_per_second, 0);
  EXPECT_GT(profile.memory_bytes_per_second, 0);
  for (const profile::OperatorProfile& entry : profile.operators)
    EXPECT_GT(entry.forward_s, 0) << entry.name;
  const comm::Communicator world;
  auto options = uneven_options<CudaAtom>();
  options.device.memory_bytes = 400'000;
  options.profile = profile;
  if (world.size() == 1) {  // several would have to agree on one
    EXPECT_EQ(train<CudaAtom>(options), train<CudaZero1>(uneven_options<CudaZero1>()));
  }
}

TEST_F(CudaTrainer, learns) {
  const auto falls = [&]<class Tested>(std::type_identity<Tested>) {
    auto steady = uneven_options<Tested>();
    steady.learning_rate = {.peak = 0.01};
    const auto outcome = train<Tested>(steady, 30);
    EXPECT_NEAR(outcome.losses.front(), std::log(37.0), 0.3);
    EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.8);
  };
  falls(std::type_identity<CudaZero1>{});
  falls(std::type_identity<CudaBf16>{});
}

}  // namespace
}  // namespace reef::test
