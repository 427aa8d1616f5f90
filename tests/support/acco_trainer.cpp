#include "overlapping_trainers.hpp"

template class reef::Trainer<reef::optim::Acco<reef::optim::AdamW>>;
