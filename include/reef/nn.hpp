#pragma once

/// \file
/// Everything in nn/ with the host's kernels; those of Cuda are in nn/cuda.cuh.

#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/generator.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt2_config.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/registry.hpp>
