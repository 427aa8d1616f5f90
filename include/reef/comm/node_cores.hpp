#pragma once

#include <reef/comm/communicator.hpp>
#include <reef/device/cores.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// Returns the number of threads for this rank with which no two ranks of its machine (node) share a core.
///
///     max(1, floor(cores / ranks of the node whose cores intersect these, this rank included))
///
/// | bound apart | each rank uses all cores of its own (mpiexec --bind-to core, --map-by ...:PE=n) |
/// | not bound   | the ranks of the node share its cores evenly                                    |
/// | who         | all ranks of the communicator: collective, blocks                               |
///
/// \code
/// #include <reef/device/host.hpp>
/// // given: const comm::Communicator& world
/// device::Host host({.threads = comm::share_of_cores(world)});
/// \endcode
int share_of_cores(const Communicator& ranks, const device::CoreSet& cores = device::own_cores());

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/node_cores.ipp>
#endif
