// Trainers whose messages are encoded: the laws of every Trainer, and what the wire carries.

#include <reef/compress/channels.hpp>

#include <gtest/gtest.h>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>

#include "../laws/trainer.hpp"

namespace reef::test {
namespace {

using codec::Blockwise8;
using codec::Ef21;
using codec::ErrorFeedback;
using codec::TopK;

using Selected = compress::Channels<compress::Gradient<ErrorFeedback<TopK>>>;
using Estimated = compress::Channels<compress::Gradient<Ef21<Blockwise8>>, compress::Parameter<Blockwise8>>;

using EncodedCases = testing::Types<TrainerCase<Trainer<Selected, optim::Ddp<optim::AdamW>>>,
                                    TrainerCase<Trainer<Estimated, optim::Zero1<optim::AdamW>>>,
                                    TrainerCase<Trainer<Selected, optim::Acco<optim::AdamW>>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Encoded, TrainerLaws, EncodedCases);

}  // namespace
}  // namespace reef::test
