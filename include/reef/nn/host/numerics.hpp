#pragma once

#include <cstdint>
#include <string>

namespace reef {
inline namespace v0 {
namespace nn::host {

/// Returns the numerics class: a hash of the results that the host's kernels compute from known numbers. Programs of
/// one class compute the same bits from the same numbers. Under one instruction set and with one matrix library these
/// kernels have one class however they are built: g++ or clang, -O0 to -O3, -march=native, headers or compiled library;
/// other libraries, and -ffast-math, have classes of their own.
///
/// | runs | on one thread, under device::instruction_set(), once in a process for each instruction set   |
/// | cost | some 0.1 ms in the first call                                                                |
///
/// \code
/// const std::uint64_t mine = nn::host::numerics_class();
/// \endcode
std::uint64_t numerics_class();

/// Returns a numerics class, a hash of the results of the host's kernels, as text: 16 hexadecimal digits.
std::string text_of_numerics_class(std::uint64_t of = numerics_class());

}  // namespace nn::host
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/host/numerics.ipp>
#endif
