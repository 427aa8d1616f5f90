#pragma once

#include <math.h>

#include <reef/core/config.hpp>

/// Marks the member template operator() of a rule, a function of one element or vector (transform.hpp). nvcc compiles a
/// rule for the host and for the device, and would warn needlessly that the host's vectors are not device code.
#if defined(__CUDACC__)
#define REEF_RULE _Pragma("nv_exec_check_disable")
#else
#define REEF_RULE
#endif

namespace reef {
inline namespace v0 {
namespace device {

/// \file
/// The friend functions of device::Vector (sqrt, fma, ...), for single numbers: so a rule (transform.hpp) is written
/// once, for vectors on the host and for the threads of a GPU. A rule states `using device::fma;`, and computes each
/// product that is part of a sum by fma, so that no compiler and no flag decides which of its operations are fused.
///
/// \code
/// const float sum = device::fma(2.0F, 3.0F, 1.0F);  // 7, rounded once
/// \endcode

REEF_HOST_DEVICE inline float sqrt(float x) { return ::sqrtf(x); }
REEF_HOST_DEVICE inline double sqrt(double x) { return ::sqrt(x); }
REEF_HOST_DEVICE inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
REEF_HOST_DEVICE inline double fma(double a, double b, double c) { return ::fma(a, b, c); }
REEF_HOST_DEVICE inline float larger(float a, float b) { return a > b ? a : b; }
REEF_HOST_DEVICE inline double larger(double a, double b) { return a > b ? a : b; }
REEF_HOST_DEVICE inline float smaller(float a, float b) { return a < b ? a : b; }
REEF_HOST_DEVICE inline double smaller(double a, double b) { return a < b ? a : b; }
REEF_HOST_DEVICE inline float select_less(float a, float b, float yes, float no) { return a < b ? yes : no; }
REEF_HOST_DEVICE inline double select_less(double a, double b, double yes, double no) { return a < b ? yes : no; }

}  // namespace device
}  // namespace v0
}  // namespace reef
