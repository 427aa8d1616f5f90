// A rule that needs whole matrices, under the optimizers and swap policies that give it such: the laws of a step, and
// the bits of one rank.

#include <reef/optim/muon.hpp>

#include <reef/optim/diloco.hpp>
#include <reef/swap/atom.hpp>

#include "../laws/trainer.hpp"
#include "swapped.hpp"

namespace reef::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Muon, TrainerLaws, SynchronousCases<optim::Muon>);

}  // namespace reef::test
