#include <reef/optim/adamw.hpp>

#include "../laws/trainer.hpp"

namespace reef::test {

using Fp64Cases = SynchronousCases<optim::AdamW, precision::Fp64>;
INSTANTIATE_TYPED_TEST_SUITE_P(AdamWInFp64, TrainerLaws, Fp64Cases);

}  // namespace reef::test
