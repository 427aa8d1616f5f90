#include "overlapping_trainers.hpp"

template class reef::Trainer<reef::optim::DpuPredicted<reef::optim::AdamW>>;
