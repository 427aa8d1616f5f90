#pragma once

#include <reef/core/bfloat16.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>

/// Declares the graphs of the host that a builder makes of a configuration, with their kernels, with `extern`; without
/// it, in the one unit that has them, defines them.
#define REEF_NN_GRAPHS_OF_HOST(declared, builder, Config)                                                           \
  declared template graph::Graph<device::Host, float> nn::builder<device::Host, float>(const nn::Config&, int);     \
  declared template graph::Graph<device::Host, double> nn::builder<device::Host, double>(const nn::Config&, int);   \
  declared template graph::Graph<device::Host, Bfloat16> nn::builder<device::Host, Bfloat16>(const nn::Config&, int);
