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
extern template class graph::Graph<device::Host, float>;
extern template graph::Graph<device::Host, float> nn::gpt<device::Host, float>(const nn::GptConfig&, int);

}  // namespace reef
