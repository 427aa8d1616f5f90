#include "overlapping_trainers.hpp"

template class reef::Trainer<reef::optim::AccoWp<reef::optim::AdamW>>;
