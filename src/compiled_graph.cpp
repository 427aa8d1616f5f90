// The graph of a model on the host in fp32, and GPT-2's with its kernels.

#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

template class reef::graph::Graph<reef::device::Host, float>;
template reef::graph::Graph<reef::device::Host, float> reef::nn::gpt<reef::device::Host, float>(const reef::nn::GptConfig& config,
                                                                                                int threads);
