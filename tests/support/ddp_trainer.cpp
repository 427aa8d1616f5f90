#include "trainers.hpp"

namespace reef {

template class Trainer<optim::Ddp<optim::AdamW>>;
template class graph::Graph<device::Host, float>;
template graph::Graph<device::Host, float> nn::gpt<device::Host, float>(const nn::GptConfig&, int);

}  // namespace reef
