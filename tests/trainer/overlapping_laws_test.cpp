#include "../laws/trainer.hpp"
#include "../support/overlapping_trainers.hpp"

namespace reef::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Overlapping, TrainerLaws, OverlappingCases<optim::AdamW>);

}  // namespace reef::test
