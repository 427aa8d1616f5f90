// Models that are swapped through the device: the bits of those that stay there, in memory that would
// not hold them.

#include <map>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>

#include "../laws/trainer.hpp"

namespace reef::test {

using SwappedZero1 = TrainerCase<Trainer<swap::Atom<>, optim::Zero1<optim::AdamW>>,
                                 Trainer<optim::Ddp<optim::AdamW>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Atom, TrainerLaws, testing::Types<SwappedZero1>);

namespace {

using Resident = Trainer<optim::Ddp<optim::AdamW>>;
using Swapped = Trainer<swap::Atom<>, optim::Ddp<optim::AdamW>>;

nn::GptConfig deep(float dropout) {
  nn::GptConfig config = small_config();
  config.layers = 6;
  config.dropout = dropout;
  return config;
}

/// Nothing but what crosses the bounds of segments is kept.
template <class Options>
Options recomputing(Options options) {
  options.activations = Activations::recompute;
  return options;
}

/// What a run leaves behind, and its loss on held-out text.
template <class TrainerType>
auto left_by(typename TrainerType::Options options, float dropout) {
  TrainerType trainer(nn::gpt<device::Host, float>(deep(dropout), 1), small_source(), options,
                      small_source());
  const auto outcome = outcome_of(trainer, 3);
  return std::pair(outcome, trainer.evaluate(2));
}

TEST(SwapAtom, gives_the_bits_of_a_model_that_stays) {
  for (const int micro_batches : {1, 3}) {
    for (const float dropout : {0.0F, 0.2F}) {
      auto resident = small_options<Resident>();
      resident.micro_batches = {micro_batches};
      auto swapped = small_options<Swapped>();
      swapped.micro_batches = {micro_batches};
      const auto expected = left_by<Resident>(resident, dropout);
      EXPECT_EQ(left_by<Resident>(recomputing(resident), dropout), expected);
      EXPECT_EQ(left_by<Swapped>(swapped, dropout), expected);
      EXPECT_EQ(left_by<Swapped>(recomputing(swapped), dropout), expected);
      swapped.device.link_bytes_per_second = 1e9;
      swapped.device.memory_bytes =
          Swapped::estimate(nn::gpt<device::Host, float>(deep(dropout), 1), swapped, 1)
              .device_bytes;
      EXPECT_EQ(left_by<Swapped>(swapped, dropout), expected);
    }
  }
}

/// What it leaves with several micro-batches and dropout on all ranks, behind a link, where nobody may read
/// what has left.
template <class TrainerType>
auto left_by_ranks(Activations activations = Activations::recompute) {
  auto options = small_options<TrainerType>();
  options.micro_batches = {3};
  options.activations = activations;
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  return left_by<TrainerType>(options, 0.2F);
}

TEST(SwapAtom, gives_its_bits_in_every_manner) {
  const auto expected = left_by_ranks<Resident>(Activations::keep);
  for (const Activations activations : {Activations::keep, Activations::recompute}) {
    using Rule = optim::Ddp<optim::AdamW>;
    EXPECT_EQ((left_by_ranks<Trainer<swap::Atom<3>, Rule>>(activations)), expected);
    EXPECT_EQ((left_by_ranks<Trainer<swap::PaperAtom, Rule>>(activations)), expected);
    EXPECT_EQ((left_by_ranks<Trainer<swap::LayerStreaming, Rule>>(activations)), expected);
  }
}

TEST(SwapAtom, gives_the_bits_of_rounds_that_overlap) {
  using Acco = optim::Acco<optim::AdamW>;
  const auto expected = left_by_ranks<Trainer<Acco>>(Activations::keep);
  EXPECT_EQ((left_by_ranks<Trainer<swap::Atom<>, Acco>>()), expected);
  EXPECT_EQ((left_by_ranks<Trainer<swap::LayerStreaming, Acco>>()), expected);
}

TEST(SwapAtom, needs_the_memory_that_is_foreseen_and_no_more) {
  auto options = small_options<Swapped>();
  options.device.link_bytes_per_second = 1e9;
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  const StepEstimate foreseen = Swapped::estimate(model(), options, 1);
  auto resident = small_options<Resident>();
  resident.device.link_bytes_per_second = 1e9;
  const Bytes stays = Resident::estimate(model(), resident, 1).device_bytes;
  EXPECT_LT(2 * foreseen.device_bytes, stays);

  const comm::Communicator self(MPI_COMM_SELF, "self");
  const auto peak = [&](Bytes memory) {
    options.device.memory_bytes = memory;
    Swapped trainer(model(), small_source(), options, {}, self);
    trainer.step();
    return trainer.device().memory().peak;
  };
  EXPECT_EQ(peak(foreseen.device_bytes), foreseen.device_bytes);
  EXPECT_THROW(peak(foreseen.device_bytes - 1), ScheduleError);
}

TEST(SwapAtom, needs_less_memory_where_segments_are_computed_again) {
  // Of four micro-batches: what is kept grows with each, what crosses the bounds of segments little.
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  const auto needs = [&](int micro_batches, Activations activations) {
    auto options = small_options<Swapped>();
    options.device.link_bytes_per_second = 1e9;
    options.micro_batches = {micro_batches};
    options.activations = activations;
    return Swapped::estimate(model(), options, 1).device_bytes;
  };
  EXPECT_GT(needs(8, Activations::keep), 3 * needs(8, Activations::recompute));
  EXPECT_LT(needs(8, Activations::recompute), 3 * needs(1, Activations::recompute));
}

TEST(SwapAtom, loads_each_segment_twice_and_the_last_once) {
  auto options = small_options<Swapped>();
  options.micro_batches = {4};
  const auto programs = Swapped::programs(nn::gpt<device::Host, float>(deep(0), 1), options, 1);
  std::map<std::string, int> count;
  for (const schedule::Instruction& i : programs[0].round) ++count[i.kind];
  const int segments = count["Forward"] / 4;
  EXPECT_GT(segments, 5);
  EXPECT_EQ(count["Load"], 2 * segments - 1);
  EXPECT_EQ(count["Evict"], segments);
  EXPECT_EQ(count["Backward"], 4 * segments);
}

}  // namespace
}  // namespace reef::test
