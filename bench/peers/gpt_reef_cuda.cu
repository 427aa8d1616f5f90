// Reef's side of the comparison with PyTorch, on a GPU: see gpt_reef.hpp.

#include <reef/nn/cuda.cuh>

#include "gpt_reef.hpp"

int main(int argc, char** argv) { return reef_peers::main_on<reef::device::Cuda>(argc, argv); }
