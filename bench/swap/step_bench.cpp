// Steps of models that are swapped through an emulated device: see step_bench.hpp.

#include <reef/nn/host.hpp>

#include "swap/step_bench.hpp"

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "swap_step_bench",
                                reef_bench::step_bench<reef::device::Host>);
}
