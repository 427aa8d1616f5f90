#include <reef/optim/momentum.hpp>

#include "../laws/trainer.hpp"

namespace reef::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Momentum, TrainerLaws, SynchronousCases<optim::Momentum>);

}  // namespace reef::test
