// The graph of a model on the host in fp32.

#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>

template class reef::graph::Graph<reef::device::Host, float>;
