#pragma once

/// \file
/// Everything in device/ but Cuda, which needs its runtime (device/cuda.hpp) or nvcc
/// (device/cuda.cuh).

#include <reef/device/any_device.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/cores.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/device/memory.hpp>
#include <reef/device/simd.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>
