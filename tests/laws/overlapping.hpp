#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/optim/ddp.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/rank_source.hpp"

/// What a policy whose rounds overlap has in common with Ddp, bit for bit, beside the laws of every
/// Trainer. They need a model without dropout, whose masks are drawn by the number of a sample: the
/// policies read the same micro-batches in another order.
namespace reef::test {

/// A run with so many micro-batches a phase.
template <class TrainerType>
Outcome<typename TrainerType::T> run_by_rank(const RankSource& fill, int phase, int steps,
                                             typename TrainerType::Options options,
                                             MPI_Comm ranks = MPI_COMM_WORLD) {
  const comm::Communicator communicator(ranks);
  options.micro_batches = {phase};
  TrainerType trainer(
      nn::gpt<typename TrainerType::Device, typename TrainerType::T>(unmasked_config(), 1),
      by_rank(fill, communicator.size(), phase), options, {}, communicator);
  return outcome_of(trainer, steps);
}

/// | Optim  | the policy                                                                   |
/// | exact  | how many of the first steps have the bits of Ddp on the same micro-batches:   |
/// |        | their gradients are taken at the weights that they are applied to             |
template <class Optim_, int exact_>
struct OverlappingCase {
  using Optim = Optim_;
  static constexpr int exact = exact_;
};

template <class Case>
class OverlappingLaws : public testing::Test {
protected:
  using Optim = typename Case::Optim;
  using Tested = Trainer<Optim>;
  using Reference = Trainer<optim::Ddp<typename Optim::Rule>>;
  static constexpr int per_phase = 2;
  static constexpr int per_step = per_phase * Optim::phases_per_step;

  static auto tested(const RankSource& fill, int steps) {
    return run_by_rank<Tested>(fill, per_phase, steps, small_options<Tested>());
  }
  static auto reference(const RankSource& fill, int steps) {
    return run_by_rank<Reference>(fill, per_step, steps, small_options<Reference>());
  }
};

TYPED_TEST_SUITE_P(OverlappingLaws);

TYPED_TEST_P(OverlappingLaws, the_first_steps_have_the_bits_of_ddp_on_the_same_micro_batches) {
  const int exact = TypeParam::exact;
  EXPECT_EQ(this->tested(different_samples, exact), this->reference(different_samples, exact));
  // And no more of them, or the policy is Ddp.
  EXPECT_NE(this->tested(different_samples, exact + 1).weights,
            this->reference(different_samples, exact + 1).weights);
}

TYPED_TEST_P(OverlappingLaws, ranks_that_read_equal_samples_have_the_bits_of_one) {
  if ((world_size() & (world_size() - 1)) != 0)
    GTEST_SKIP() << "the mean is exact for powers of two alone";
  const RankSource equal = [](int, std::uint64_t n, std::span<const AnyView> inputs) {
    return different_samples(0, n, inputs);
  };
  using Policy = Trainer<typename TypeParam::Optim>;
  const auto options = small_options<Policy>();
  EXPECT_EQ(run_by_rank<Policy>(equal, 2, 3, options),
            run_by_rank<Policy>(equal, 2, 3, options, MPI_COMM_SELF));
}

REGISTER_TYPED_TEST_SUITE_P(OverlappingLaws,
                            the_first_steps_have_the_bits_of_ddp_on_the_same_micro_batches,
                            ranks_that_read_equal_samples_have_the_bits_of_one);

}  // namespace reef::test
