#pragma once

// Everything in torch/ that needs no CUDA; not part of reef.hpp, since it needs libtorch, and the CMake target
// reef::torch.

#include <reef/torch/data_parallel.hpp>
#include <reef/torch/described_module.hpp>
#include <reef/torch/module.hpp>
#include <reef/torch/next_batch.hpp>
