#pragma once

#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

// The Trainers of AdamW in fp32, of which most tests need one: compiled once, in the library
// reef_test_trainers.

namespace reef {

extern template class Trainer<optim::Ddp<optim::AdamW>>;
extern template class Trainer<optim::Zero1<optim::AdamW>>;

}  // namespace reef
