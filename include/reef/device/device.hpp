#pragma once

/// \file
/// The folder device/ but for CUDA, which needs its toolkit: <reef/device/cuda.hpp>.

#include <reef/device/concept.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/device/memory.hpp>
#include <reef/device/simd.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>
