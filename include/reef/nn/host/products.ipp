#pragma once

#include <algorithm>
#include <atomic>
#include <cstdio>

#include <reef/nn/host/products.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

REEF_INLINE void tell_that_blas_lacks(const graph::Dag& dag) {
  static std::atomic<bool> told{false};
  const bool multiplies =
      std::any_of(dag.nodes.begin(), dag.nodes.end(),
                  [](const graph::Node& node) { return node.kind == "Linear" || node.kind == "LoraLinear"; });
  if (!multiplies || told.exchange(true)) return;
  std::fputs(
      "reef: matrix products run as Reef's own loops, as this program was compiled without a BLAS, "
      "with which a model trains about 1.5 times as fast. fix: compile it with $(pkg-config --cflags "
      "--libs reef-mpi), or link reef::reef in CMake; with -DREEF_PORTABLE_PRODUCTS if it is to be "
      "so.\n",
      stderr);
}

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
