// Messages of codecs between GPUs: the bits that they make of a training, whoever sends them, and the losses of the host.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>

#include <reef/codec/bf16.hpp>
#include <reef/codec/blockwise8.hpp>
#include <reef/codec/chosen.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/compress/channels.hpp>
#include <reef/compress/cuda.cuh>
#include <reef/nn/cuda.cuh>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/same_bits.hpp"
#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using device::Cuda;
using device::Host;

using OnEdges = compress::Channels<compress::Activation<codec::Chosen>, compress::ActivationGradient<codec::Chosen>>;
using OnSums = compress::Channels<compress::Gradient<codec::Chosen>, compress::Parameter<codec::Chosen>>;
using OnGradients = compress::Channels<compress::Gradient<codec::Chosen>>;
using Zero1 = optim::Zero1<optim::AdamW>;
using Ddp = optim::Ddp<optim::AdamW>;

template <class... Policies>
using Staged = Trainer<pipeline::OneFOneB<>, Zero1, Policies...>;

/// A stage on each rank, with that codec of activations and of their gradients.
template <class Tested>
typename Tested::Options staged_options(const std::string& activation = "none", const std::string& gradient = "none") {
  auto options = small_options<Tested>();
  options.topology = run::Topology(1, world_size());
  options.micro_batches = {3};
  if constexpr (requires { options.compress.activation = codec::Chosen(); }) {
    options.compress.activation = codec::Chosen::of(activation);
    options.compress.activation_gradient = codec::Chosen::of(gradient);
  }
  if constexpr (requires { options.device.poison_freed; }) options.device.poison_freed = true;
  return options;
}

/// The codec of gradients; Blockwise8 of weights that travel.
template <class Options>
Options with_codecs(Options options, const std::string& gradient) {
  options.compress.gradient = codec::Chosen::of(gradient);
  if constexpr (requires { options.compress.parameter = codec::Chosen(); }) {
    options.compress.parameter = codec::Chosen::of("blockwise8");
  }
  if constexpr (requires { options.device.poison_freed; }) options.device.poison_freed = true;
  return options;
}

/// Of sums in another order a codec may make the next code: as near as codes are.
template <class Outcome, class Other>
void expect_near(const Outcome& cuda, const Other& host, double bound) {
  ASSERT_EQ(cuda.losses.size(), host.losses.size());
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(cuda.losses[i], host.losses[i], bound * host.losses[i]) << "step " << i;
    EXPECT_NEAR(cuda.norms[i], host.norms[i], 10 * bound * host.norms[i]) << "step " << i;
  }
}

class CudaChannels : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  }
};

TEST_F(CudaChannels, that_lose_nothing_change_no_bit_between_stages) {
  using Plain = Staged<Cuda>;
  using Tested = Staged<Cuda, OnEdges>;
  const auto plain = train<Plain>(staged_options<Plain>(), 3);
  EXPECT_TRUE(same_bits(train<Tested>(staged_options<Tested>("dense", "ef+dense"), 3), plain));
  EXPECT_EQ(train<Tested>(staged_options<Tested>("top-k:4", "dense"), 3) == plain, world_size() == 1);
}

TEST_F(CudaChannels, between_stages_train_as_on_the_host) {
  using OnHost = Staged<OnEdges>;
  using Tested = Staged<Cuda, OnEdges>;
  for (const auto& [activation, gradient] : {std::pair{"top-k:4", "ef+top-k:4"}, std::pair{"blockwise8", "ef21+bf16"}}) {
    const auto cuda = train<Tested>(staged_options<Tested>(activation, gradient), 3);
    EXPECT_TRUE(same_bits(train<Tested>(staged_options<Tested>(activation, gradient), 3), cuda)) << activation;
    expect_near(cuda, train<OnHost>(staged_options<OnHost>(activation, gradient), 3), 1e-3);
  }
}

/// What is bfloat16 already, Bf16 sends as it is.
TEST_F(CudaChannels, of_bfloat16_widen_it_and_round_it_back) {
  using Plain = Staged<Cuda, precision::Bf16>;
  using Tested = Staged<Cuda, precision::Bf16, OnEdges>;
  EXPECT_TRUE(same_bits(train<Tested>(staged_options<Tested>("bf16", "bf16"), 3), train<Plain>(staged_options<Plain>(), 3)));
}

/// A codec that is chosen later is the host's.
using ByDevice = compress::Channels<compress::Activation<codec::Blockwise8>, compress::ActivationGradient<codec::Bf16>>;

TEST_F(CudaChannels, between_stages_give_the_bits_of_the_hosts_codecs) {
  const auto expect = []<class Precision>(Precision) {
    using Tested = Staged<Cuda, Precision, ByDevice>;
    using OnHost = Staged<Cuda, Precision, OnEdges>;
    EXPECT_TRUE(same_bits(train<Tested>(staged_options<Tested>(), 3), train<OnHost>(staged_options<OnHost>("blockwise8", "bf16"), 3)));
  };
  expect(precision::Fp32());
  expect(precision::Bf16());
}

/// Parts for owners, folds and gathers; and, where one process stands for all, messages to itself.
TEST_F(CudaChannels, of_sums_and_weights_give_the_bits_of_the_hosts_codecs) {
  using Compress = compress::Channels<compress::Gradient<codec::Blockwise8>, compress::Parameter<codec::Blockwise8>>;
  using Tested = Trainer<Cuda, Zero1, Compress>;
  using OnHost = Trainer<Cuda, Zero1, OnSums>;
  const auto expected = train<OnHost>(with_codecs(uneven_options<OnHost>(), "blockwise8"), 3);
  auto options = uneven_options<Tested>();
  options.device.poison_freed = true;
  EXPECT_TRUE(same_bits(train<Tested>(options, 3), expected));
  auto alone = alone_options<Tested>(uneven_counts(world_size()));
  alone.device.poison_freed = true;
  EXPECT_TRUE(same_bits(train<Tested>(alone, 3, MPI_COMM_SELF), expected));
}

template <class Tested>
class CudaSums : public CudaChannels {};
using Sums = testing::Types<Trainer<Cuda, Ddp, OnGradients>, Trainer<Cuda, Zero1, OnSums>>;
TYPED_TEST_SUITE(CudaSums, Sums);

TYPED_TEST(CudaSums, give_on_p_ranks_the_bits_of_one_process_that_stands_for_p) {
  using Tested = TypeParam;
  for (const char* const codec : {"ef+top-k:4", "ef21+blockwise8"}) {
    const auto ranks = with_codecs(uneven_options<Tested>(), codec);
    const auto alone = with_codecs(alone_options<Tested>(uneven_counts(world_size())), codec);
    EXPECT_TRUE(same_bits(train<Tested>(ranks, 3), train<Tested>(alone, 3, MPI_COMM_SELF))) << codec;
  }
}

TYPED_TEST(CudaSums, train_as_on_the_host) {
  using Tested = TypeParam;
  using OnHost = Trainer<typename Tested::Optim, typename Tested::Compress>;
  const auto cuda = train<Tested>(with_codecs(uneven_options<Tested>(), "ef+top-k:4"), 3);
  expect_near(cuda, train<OnHost>(with_codecs(uneven_options<OnHost>(), "ef+top-k:4"), 3), 1e-3);
}

}  // namespace
}  // namespace reef::test
