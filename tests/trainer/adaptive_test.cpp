// Phases that take extra micro-batches for as long as they communicate.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/io/manifest.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../laws/overlapping.hpp"

namespace reef::test {

namespace {

using AccoTrainer = Trainer<optim::Acco<optim::AdamW>>;
using AccoWpTrainer = Trainer<optim::AccoWp<optim::AdamW>>;

template <class Tested>
typename Tested::Options adaptive_options(Accumulation accumulation = Accumulation::adaptive()) {
  auto options = small_options<Tested>();
  options.accumulation = accumulation;
  return options;
}

/// Each message takes far longer than a micro-batch.
template <class Options>
Options slow_network(Options options) {
  options.communication.network = profile::Network::uniform(world_size(), 0.02, 1e9);
  return options;
}

template <class Tested>
Tested adaptive_trainer(const typename Tested::Options& options,
                        const comm::Communicator& communicator,
                        const RankSource& fill = different_samples) {
  return Tested(nn::gpt<device::Host, float>(unmasked_config(), 1),
                by_rank(fill, communicator.size(), 1), options, {}, communicator);
}

template <class Tested>
constexpr int phases_of(Tested&) {
  return Tested::Optim::phases_per_step;
}

/// Micro-batches of a rank in phase s of the job, of which 0 is the prologue.
int count_of(int rank, int s) { return s == 0 ? 1 : 1 + (rank + s) % 3; }

/// The counts of count_of in phases of four, of which the rest have no weight.
RankSource padded_samples() {
  return [](int rank, std::uint64_t n, std::span<const AnyView> inputs) {
    const int phase = static_cast<int>(n / 4);
    const int in_phase = static_cast<int>(n % 4);
    int number = std::min(in_phase, count_of(rank, phase) - 1);
    for (int s = 0; s < phase; ++s) number += count_of(rank, s);
    different_samples(rank, static_cast<std::uint64_t>(number), inputs);
    return in_phase < count_of(rank, phase) ? 1.0 : 0.0;
  };
}

}  // namespace

template <class Tested>
class Adaptive : public testing::Test {};
using RoundingTrainer =
    Trainer<optim::Acco<optim::AdamW>, precision::Bf16Gradients<precision::Fp32>>;
using AdaptiveTrainers = testing::Types<AccoTrainer, AccoWpTrainer, RoundingTrainer>;
TYPED_TEST_SUITE(Adaptive, AdaptiveTrainers);

TYPED_TEST(Adaptive, counts_that_are_given_have_the_bits_of_fixed_ones) {
  constexpr int steps = 4;
  const auto fixed = run_by_rank<TypeParam>(padded_samples(), 4, steps, small_options<TypeParam>());
  const comm::Communicator world;
  auto trainer = adaptive_trainer<TypeParam>(adaptive_options<TypeParam>(), world);
  Outcome<float> outcome;
  int phase = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<int> extra;
    for (int s = 0; s < phases_of(trainer); ++s) {
      extra.push_back(count_of(world.rank(), ++phase) - 1);
    }
    trainer.replay(extra);
    const auto one = outcome_of(trainer, 1);
    outcome.losses.push_back(one.losses[0]);
    outcome.norms.push_back(one.norms[0]);
    outcome.weights = one.weights;
    EXPECT_EQ(std::vector<int>(trainer.extra_micro_batches().begin(),
                               trainer.extra_micro_batches().end()),
              extra);
  }
  EXPECT_EQ(outcome, fixed);
}

TYPED_TEST(Adaptive, a_phase_takes_micro_batches_until_it_has_communicated) {
  if (world_size() == 1) GTEST_SKIP() << "one rank alone sends nothing";
  constexpr int steps = 3;
  const comm::Communicator world;
  auto trainer = adaptive_trainer<TypeParam>(slow_network(adaptive_options<TypeParam>()), world);
  Outcome<float> outcome;
  std::vector<std::vector<int>> log;
  std::uint64_t pending = static_cast<std::uint64_t>(world.size());  // of all ranks
  for (int step = 0; step < steps; ++step) {
    const StepResult result = trainer.step();
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
    const auto extra = trainer.extra_micro_batches();
    log.emplace_back(extra.begin(), extra.end());
    for (const int count : log.back()) EXPECT_GT(count, 0);
    // The step's samples: what was pending, and of two phases the first.
    const auto of_all = [&](std::uint64_t mine) {
      const auto all = comm::gather_numbers(trainer.progress(), "counts", mine);
      std::uint64_t sum = 0;
      for (const std::uint64_t count : all) sum += count;
      return sum;
    };
    std::uint64_t expected = pending;
    if (extra.size() == 2) expected += of_all(static_cast<std::uint64_t>(1 + log.back()[0]));
    EXPECT_EQ(result.micro_batches, expected);
    pending = of_all(static_cast<std::uint64_t>(1 + log.back().back()));
  }
  outcome.weights = outcome_of(trainer, 0).weights;

  auto again = adaptive_trainer<TypeParam>(adaptive_options<TypeParam>(), world);
  Outcome<float> replayed;
  for (const std::vector<int>& extra : log) {
    again.replay(extra);
    const StepResult result = again.step();
    replayed.losses.push_back(result.loss);
    replayed.norms.push_back(result.gradient_norm);
  }
  replayed.weights = outcome_of(again, 0).weights;
  EXPECT_EQ(replayed, outcome);
}

TYPED_TEST(Adaptive, a_bound_is_kept) {
  if (world_size() == 1) GTEST_SKIP() << "one rank alone sends nothing";
  const comm::Communicator world;
  auto trainer = adaptive_trainer<TypeParam>(
      slow_network(adaptive_options<TypeParam>(Accumulation::capped(3))), world);
  const std::vector<int> all(static_cast<std::size_t>(phases_of(trainer)), 2);
  for (int step = 0; step < 2; ++step) {
    trainer.step();
    EXPECT_EQ(std::vector<int>(trainer.extra_micro_batches().begin(),
                               trainer.extra_micro_batches().end()),
              all);
  }
}

TYPED_TEST(Adaptive, every_rank_takes_its_own_micro_batches_one_after_the_other) {
  const comm::Communicator world;
  std::vector<std::uint64_t> taken;  // on the one thread that calls sources
  const RankSource noting = [&taken](int rank, std::uint64_t n, std::span<const AnyView> inputs) {
    EXPECT_EQ(rank, world_rank());
    taken.push_back(n);
    return different_samples(rank, n, inputs);
  };
  auto trainer = adaptive_trainer<TypeParam>(adaptive_options<TypeParam>(), world, noting);
  for (int step = 0; step < 3; ++step) trainer.step();
  EXPECT_EQ(taken.size(), trainer.taken());
  for (std::size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], i);
}

TYPED_TEST(Adaptive, a_shared_order_gives_each_micro_batch_to_one_rank) {
  const comm::Communicator world;
  const SharedFolder folder("adaptive-shared");
  std::vector<std::uint64_t> taken;
  // Of the job's: by_rank with one micro-batch a phase counts them by rank.
  const RankSource noting = [&](int rank, std::uint64_t n, std::span<const AnyView> inputs) {
    taken.push_back(n * static_cast<std::uint64_t>(world.size()) +
                    static_cast<std::uint64_t>(rank));
    return different_samples(rank, n, inputs);
  };
  const auto options =
      adaptive_options<TypeParam>(Accumulation::adaptive(Accumulation::Order::shared));
  const auto step = [&](TypeParam& trainer) {  // higher ranks take more
    trainer.replay(std::vector<int>(static_cast<std::size_t>(TypeParam::Optim::phases_per_step),
                                    2 * world.rank()));
    trainer.step();
  };
  // What all ranks have taken, and what the checkpoint says that nobody has: together 0, 1, 2, ..., each once.
  const auto expect_each_once = [&](TypeParam& trainer) {
    const io::Manifest manifest = io::read_manifest(checkpoint::save(trainer, folder.path()));
    const auto next = io::require<std::uint64_t>(manifest.facts, "micro_batches");
    const auto unused = io::require<std::vector<std::uint64_t>>(manifest.facts, "unused");
    EXPECT_EQ(unused.size(), static_cast<std::size_t>(world.size() - 1)) << "every other rank has asked rank 0 for its next one";
    const std::vector<std::string> texts = comm::gather_texts(trainer.progress(), "taken", io::Json(taken).dump());
    if (world.rank() != 0) return;
    std::vector<std::uint64_t> all = unused;
    for (const std::string& text : texts) {
      for (const io::Json& number : io::parse_json(text, "a rank's numbers")) all.push_back(number.get<std::uint64_t>());
    }
    std::sort(all.begin(), all.end());
    std::vector<std::uint64_t> each(static_cast<std::size_t>(next));
    std::iota(each.begin(), each.end(), std::uint64_t{0});
    EXPECT_EQ(all, each) << "taken by a rank, or unused";
  };
  {
    auto trainer = adaptive_trainer<TypeParam>(options, world, noting);
    step(trainer);
    expect_each_once(trainer);
  }
  auto resumed = adaptive_trainer<TypeParam>(options, world, noting);
  ASSERT_TRUE(checkpoint::resume(resumed, folder.path()));
  EXPECT_TRUE(resumed.pending());
  step(resumed);
  expect_each_once(resumed);
}

TYPED_TEST(Adaptive, a_resume_goes_on_with_what_was_pending) {
  const comm::Communicator world;
  const SharedFolder folder("adaptive-resume");
  const auto step = [](TypeParam& trainer) {
    trainer.replay(
        std::vector<int>(static_cast<std::size_t>(TypeParam::Optim::phases_per_step), 1));
    return outcome_of(trainer, 1);
  };
  Outcome<float> expected;
  {
    auto trainer = adaptive_trainer<TypeParam>(adaptive_options<TypeParam>(), world);
    step(trainer);
    step(trainer);
    checkpoint::save(trainer, folder.path());
    expected = step(trainer);
  }
  auto resumed = adaptive_trainer<TypeParam>(adaptive_options<TypeParam>(), world);
  ASSERT_TRUE(checkpoint::resume(resumed, folder.path()));
  EXPECT_TRUE(resumed.pending());
  EXPECT_EQ(step(resumed), expected);

  // Fixed counts number samples otherwise: they begin a gradient of their own, of new samples.
  auto fixed = small_trainer<TypeParam>(small_options<TypeParam>(), world, unmasked_config());
  ASSERT_TRUE(checkpoint::resume(fixed, folder.path()));
  EXPECT_FALSE(fixed.pending());
  EXPECT_TRUE(fixed.step().committed);
}

TEST(AdaptiveAcco, what_is_not_finite_is_named_and_skipped) {
  const comm::Communicator world;
  auto options = adaptive_options<AccoTrainer>();
  options.non_finite = optim::NonFinite::skip;
  auto trainer = adaptive_trainer<AccoTrainer>(options, world);
  trainer.step();
  const std::string name = "transformer.h.1.mlp.c_proj.bias";
  const std::vector<float> whole = trainer.parameter(name);
  std::vector<float> broken = whole;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  trainer.set_parameter(name, broken);
  trainer.replay({2, 1});
  const StepResult result = trainer.step();
  EXPECT_FALSE(result.committed);
  EXPECT_NE(result.not_finite.find("the loss on rank 0, in its micro-batch 0"), std::string::npos)
      << result.not_finite;
  EXPECT_FALSE(trainer.pending());
  trainer.set_parameter(name, whole);
  EXPECT_TRUE(trainer.step().committed);
}

TEST(AdaptiveAcco, what_cannot_adapt_is_refused) {
  const comm::Communicator world;
  const auto refuse = [&]<class Refused>(Refused*, typename Refused::Options options) {
    EXPECT_THROW(small_trainer<Refused>(options, world), OptionError);
  };
  using DdpTrainer = Trainer<optim::Ddp<optim::AdamW>>;
  refuse(static_cast<DdpTrainer*>(nullptr), adaptive_options<DdpTrainer>());
  auto options = adaptive_options<AccoTrainer>(Accumulation::capped(2));
  options.micro_batches = {3};
  refuse(static_cast<AccoTrainer*>(nullptr), options);
  options = adaptive_options<AccoTrainer>(Accumulation{.order = Accumulation::Order::shared});
  refuse(static_cast<AccoTrainer*>(nullptr), options);
}

TEST(AdaptiveAcco, one_process_in_the_place_of_several_ranks_is_refused) {
  const comm::Communicator self(MPI_COMM_SELF);
  auto options = adaptive_options<AccoTrainer>();
  options.virtual_ranks = 2;
  EXPECT_THROW(small_trainer<AccoTrainer>(options, self), OptionError);
}

}  // namespace reef::test
