#pragma once

#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/dpu_predicted.hpp>

#include "trainers.hpp"

// The Trainers of AdamW in fp32 whose rounds overlap: each is compiled once, in a file of its own.

namespace reef {

extern template class Trainer<optim::Acco<optim::AdamW>>;
extern template class Trainer<optim::AccoWp<optim::AdamW>>;
extern template class Trainer<optim::Dpu<optim::AdamW, 1>>;
extern template class Trainer<optim::DpuPredicted<optim::AdamW>>;

}  // namespace reef
