// What a peer that joins gets from others: weights and state in pieces.

#include <reef/swarm/elastic/state_pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/core/error.hpp>

#include <support/small_gpt.hpp>

namespace reef::test {
namespace {

using swarm::StatePieces;
using DdpTrainer = Trainer<optim::Ddp<optim::AdamW>>;

DdpTrainer trainer_of(const DdpTrainer::Options& options) {
  return DdpTrainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {},
                    comm::Communicator::alone());
}

/// A trainer with other weights, cut elsewhere.
DdpTrainer::Options other_options() {
  auto options = small_options<DdpTrainer>();
  options.bucket_bytes = 1 << 20;
  return options;
}

}  // namespace

TEST(StatePieces, carry_all_that_a_trainer_with_other_cuts_needs_to_go_on_with_the_same_bits) {
  for (const std::int64_t numbers : {4096, 1000, 1 << 30}) {
    DdpTrainer donor = trainer_of(small_options<DdpTrainer>());
    outcome_of(donor, 2);
    DdpTrainer joiner = trainer_of(other_options());
    ASSERT_NE(donor.plan().buckets.size(), joiner.plan().buckets.size());
    outcome_of(joiner, 1);
    const StatePieces from(donor, numbers);
    StatePieces to(joiner, numbers);
    ASSERT_EQ(from.count(), to.count());
    EXPECT_EQ(from.count() == 1, numbers == 1 << 30);
    for (std::int64_t k = from.count(); k-- > 0;) to.write(k, from.read(k));  // in any order
    joiner.set_progress(donor.progress_state().committed, donor.new_micro_batches());
    for (std::int64_t k = 0; k < from.count(); ++k) EXPECT_EQ(from.read(k), to.read(k)) << k;
    EXPECT_EQ(outcome_of(joiner, 2), outcome_of(donor, 2));
  }
}

TEST(StatePieces, have_zeros_between_parameters_and_the_sizes_of_weights_and_states) {
  DdpTrainer trainer = trainer_of(small_options<DdpTrainer>());
  outcome_of(trainer, 1);
  const StatePieces pieces(trainer, 1 << 30);
  const std::vector<std::byte> bytes = pieces.read(0);
  const auto elements = static_cast<std::size_t>(trainer.plan().layout.trained_elements);
  EXPECT_EQ(bytes.size(), 3 * elements * sizeof(float));  // weights, m and v
  std::vector<bool> filled(elements);
  for (std::size_t p = 0; p < trainer.model().dag().parameters.size(); ++p) {
    const auto first = static_cast<std::size_t>(trainer.plan().layout.parameters[p]);
    const auto size = static_cast<std::size_t>(trainer.model().dag().parameters[p].spec.shape.size());
    std::fill_n(filled.begin() + static_cast<std::ptrdiff_t>(first), size, true);
  }
  for (std::size_t i = 0; i < elements; ++i) {
    for (std::size_t b = 0; b < sizeof(float) && !filled[i]; ++b) EXPECT_EQ(bytes[i * sizeof(float) + b], std::byte{0});
  }
}

TEST(StatePieces, refuse_what_is_of_another_length) {
  DdpTrainer trainer = trainer_of(small_options<DdpTrainer>());
  EXPECT_THROW(StatePieces(trainer, 0), OptionError);
  StatePieces pieces(trainer, 4096);
  std::vector<std::byte> bytes = pieces.read(0);
  bytes.pop_back();
  EXPECT_THAT([&] { pieces.write(0, bytes); }, testing::ThrowsMessage<OptionError>(testing::HasSubstr("piece 0 has")));
  EXPECT_THROW(pieces.read(-1), OptionError);
  EXPECT_THROW(pieces.read(pieces.count()), OptionError);
}

}  // namespace reef::test
