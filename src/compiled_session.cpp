// Generation on the host in fp32, with its kernels.

#include <reef/device/host.hpp>
#include <reef/nn/session.hpp>

template class reef::nn::Session<reef::device::Host, float>;
template reef::graph::RowModel<reef::device::Host, float>::RowModel(
    const reef::graph::Graph<reef::device::Host, float>&, int, int, reef::nn::RowOperators, reef::graph::RowOptions);
