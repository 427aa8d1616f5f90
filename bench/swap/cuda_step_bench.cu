// Steps of models that are swapped through a GPU: see step_bench.hpp.

#include <reef/nn/cuda.cuh>

#include "swap/step_bench.hpp"

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "swap_cuda_step_bench",
                                reef_bench::step_bench<reef::device::Cuda>);
}
