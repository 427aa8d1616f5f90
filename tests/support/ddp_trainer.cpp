#include "trainers.hpp"

namespace reef {

template class Trainer<optim::Ddp<optim::AdamW>>;

}  // namespace reef
