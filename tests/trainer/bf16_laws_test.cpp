#include <reef/optim/adamw.hpp>

#include "../laws/trainer.hpp"

namespace reef::test {

using Bf16Cases = SynchronousCases<optim::AdamW, precision::Bf16>;
INSTANTIATE_TYPED_TEST_SUITE_P(AdamWInBf16, TrainerLaws, Bf16Cases);

using OverlappingBf16Cases =
    testing::Types<TrainerCase<Trainer<optim::Acco<optim::AdamW>, precision::Bf16>>,
                   TrainerCase<Trainer<optim::Acco<optim::AdamW>, precision::Bf16Gradients<>>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(OverlappingInBf16, TrainerLaws, OverlappingBf16Cases);

}  // namespace reef::test
