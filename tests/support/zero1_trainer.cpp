#include "trainers.hpp"

template class reef::Trainer<reef::optim::Zero1<reef::optim::AdamW>>;
