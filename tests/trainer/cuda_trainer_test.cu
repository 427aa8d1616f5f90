#include <gtest/gtest.h>

#include <mpi.h>

#include <cmath>
#include <string>

#include <reef/nn/cuda.cuh>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>

#include "small_gpt.hpp"

namespace reef::test {
namespace {

using device::Cuda;
using CudaDdp = Trainer<Cuda, optim::Ddp<optim::AdamW>>;
using CudaZero1 = Trainer<Cuda, optim::Zero1<optim::AdamW>>;

/// All ranks share the first device; where none answers, all ranks skip.
class CudaTrainer : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  [[nodiscard]] static int uneven_count(int rank) { return 1 + (2 * rank + 1) % 3; }

  template <class TrainerType>
  typename TrainerType::Options options() const {
    typename TrainerType::Options options;
    options.seed = 11;
    options.learning_rate = {.peak = 0.01, .warmup = 2, .steps = 20};
    options.clip_norm = 0.5;
    options.bucket_bytes = 8192;
    options.micro_batches = {uneven_count(rank_)};
    return options;
  }

  template <class TrainerType>
  static Outcome<float> trained(const typename TrainerType::Options& options, int steps = 4,
                                MPI_Comm ranks = MPI_COMM_WORLD) {
    const comm::Communicator communicator(ranks);
    TrainerType trainer(nn::gpt<typename TrainerType::Device, float>(small_config(), 1),
                        small_source(), options, small_source(), communicator);
    return outcome_of(trainer, steps);
  }

  int rank_ = 0;
  int size_ = 1;
};

TEST_F(CudaTrainer, zero1_gives_the_bits_of_ddp_and_of_itself_again) {
  const auto sharded = trained<CudaZero1>(options<CudaZero1>());
  EXPECT_EQ(sharded, trained<CudaDdp>(options<CudaDdp>()));
  EXPECT_EQ(sharded, trained<CudaZero1>(options<CudaZero1>()));
}

TEST_F(CudaTrainer, p_ranks_give_the_bits_of_one_process_that_stands_for_p) {
  const auto together = trained<CudaZero1>(options<CudaZero1>());
  auto alone = options<CudaZero1>();
  alone.virtual_ranks = size_;
  alone.micro_batches.clear();
  for (int r = 0; r < size_; ++r) alone.micro_batches.push_back(uneven_count(r));
  EXPECT_EQ(together, trained<CudaZero1>(alone, 4, MPI_COMM_SELF));
}

TEST_F(CudaTrainer, concurrent_lanes_give_the_bits_of_one_instruction_at_a_time) {
  auto serial = options<CudaZero1>();
  serial.serial = true;
  EXPECT_EQ(trained<CudaZero1>(options<CudaZero1>()), trained<CudaZero1>(serial));
}

TEST_F(CudaTrainer, its_losses_are_those_of_the_host) {
  using HostZero1 = Trainer<optim::Zero1<optim::AdamW>>;
  auto host_options = options<HostZero1>();
  host_options.device.threads = 1;
  const auto host = trained<HostZero1>(host_options);
  const auto cuda = trained<CudaZero1>(options<CudaZero1>());
  ASSERT_EQ(cuda.losses.size(), host.losses.size());
  // The same samples, the same dropout; only the order of sums differs.
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(cuda.losses[i], host.losses[i], 1e-4 * host.losses[i]) << "step " << i;
    EXPECT_NEAR(cuda.norms[i], host.norms[i], 1e-3 * host.norms[i]) << "step " << i;
  }
}

TEST_F(CudaTrainer, learns) {
  auto steady = options<CudaZero1>();
  steady.learning_rate = {.peak = 0.01};
  const auto outcome = trained<CudaZero1>(steady, 30);
  EXPECT_NEAR(outcome.losses.front(), std::log(37.0), 0.3);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.8);
}

}  // namespace
}  // namespace reef::test
