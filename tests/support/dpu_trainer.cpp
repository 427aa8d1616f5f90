#include "overlapping_trainers.hpp"

template class reef::Trainer<reef::optim::Dpu<reef::optim::AdamW, 1>>;
