// Generation on the host in fp32, with its kernels.

#include <reef/device/host.hpp>
#include <reef/nn/session.hpp>

template class reef::nn::Session<reef::device::Host, float>;
