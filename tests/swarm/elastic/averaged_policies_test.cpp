// Peers whose models are swapped.

#include <reef/swarm/elastic/averaged.hpp>

#include <gtest/gtest.h>

#include <reef/swap/atom.hpp>
#include <reef/swarm/elastic/local_round.hpp>

#include "peers.hpp"

namespace reef::test {
namespace {

using swarm::LocalRound;
using AtomPeer = Trainer<swap::Atom<>, swarm::Averaged<optim::AdamW>>;

TEST(Averaged, swapped_peers_have_the_bits_of_ddp) {
  const Numbers counts{3, 1};
  const auto deal = LocalRound::in_turns(counts);
  LocalRound round(2, deal);
  const auto all = peers<AtomPeer>(round, 2, 4);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], reference(counts, deal, 4));
}

}  // namespace
}  // namespace reef::test
