#pragma once

#include <bitset>
#include <string>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// A set of cores of one machine, indexed by the numbers that the operating system gives them.
using CoreSet = std::bitset<1024>;

/// Returns the cores that this process may use: those of its affinity mask, or all if the system has none.
CoreSet own_cores();

/// Returns the number of cores that this process may use, by its affinity mask.
///
/// \code
/// const int threads = device::available_cores();
/// device::warn_of_binding(8);
/// \endcode
inline int available_cores() { return static_cast<int>(own_cores().count()); }

/// Returns the number of host threads for kernels of a device with these options: 1 if they name no threads.
template <class Options>
int threads_of(const Options& options) {
  if constexpr (requires { options.threads; }) {
    return options.threads > 0 ? options.threads : available_cores();
  } else {
    return 1;
  }
}

/// Returns a line which says that this process is bound to fewer cores than its
/// `threads` threads; "" if it is not, or if the machine itself has no more cores.
std::string binding_complaint(int threads);

/// Prints the complaint that this process is bound to fewer cores than `threads`, if it is, on standard error, at most
/// once in a process.
void warn_of_binding(int threads);

}  // namespace device
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/device/cores.ipp>
#endif
