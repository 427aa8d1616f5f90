#pragma once

// Not part of reef.hpp: it needs libtorch, and a program that names reef::torch.

#include <reef/torch/data_parallel.hpp>
#include <reef/torch/described_module.hpp>
#include <reef/torch/module.hpp>
#include <reef/torch/next_batch.hpp>
