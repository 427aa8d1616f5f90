#pragma once

#include <cstdint>
#include <string>

namespace reef {
inline namespace v0 {
namespace nn::host {

/// What the host's kernels answer to known numbers, as a hash: the numerics class. Programs of one class compute the same bits
/// of the same numbers. Under one instruction set and with one matrix library these kernels are of one class whatever they are
/// built with, g++ or clang, -O0 to -O3, -march=native, headers or compiled library; other libraries, and -ffast-math, are
/// classes of their own.
///
/// | asks | one thread; under device::instruction_set(), for each of which it is found once in a process |
/// | cost | the first time some 0.1 ms                                                                   |
///
/// \code
/// const std::uint64_t mine = nn::host::numerics_class();
/// \endcode
std::uint64_t numerics_class();

/// Its text: 16 hexadecimal digits.
std::string text_of_numerics_class(std::uint64_t of = numerics_class());

}  // namespace nn::host
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/host/numerics.ipp>
#endif
