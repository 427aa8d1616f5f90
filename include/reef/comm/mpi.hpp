#pragma once

/// \file
/// Includes <mpi.h>, for programs that call MPI themselves. With the compiled library (REEF_COMPILED) no other public
/// header includes it.
///
/// \code
/// #include <reef/comm/communicator.hpp>
/// const comm::Communicator world;
/// double seconds = 1;
/// MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, world.handle());
/// const comm::Communicator own(MPI_COMM_SELF, "own");
/// \endcode

#include <mpi.h>

#include <reef/comm/detail/flavour.hpp>
#include <reef/comm/mpi_handle.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

template <>
inline constexpr bool is_mpi_comm<MPI_Comm> = true;

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
