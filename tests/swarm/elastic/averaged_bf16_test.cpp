// Peers whose models are in bf16, and whose sums in fp32.

#include <reef/swarm/elastic/averaged.hpp>

#include <gtest/gtest.h>

#include <reef/core/precision.hpp>
#include <reef/swarm/elastic/local_round.hpp>

#include "peers.hpp"

namespace reef::test {
namespace {

using swarm::LocalRound;

TEST(Averaged, peers_in_bf16_have_the_bits_of_ddp) {
  const Numbers counts{2, 1};
  const auto deal = LocalRound::in_turns(counts);
  LocalRound round(2, deal);
  const auto all = peers<Trainer<swarm::Averaged<optim::AdamW>, precision::Bf16>>(round, 2, 3);
  EXPECT_EQ(all[0], all[1]);
  const auto expected = reference<Trainer<optim::Ddp<optim::AdamW>, precision::Bf16>>(counts, deal, 3);
  EXPECT_EQ(all[0], expected);
}

}  // namespace
}  // namespace reef::test
