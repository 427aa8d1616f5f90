#pragma once

/// \file
/// Asks the linker, in what is compiled for reef::compiled and includes reef/comm/mpi.hpp, for one that was built with
/// the same MPI: the types of Open MPI are pointers, those of MPICH numbers.

#include <reef/core/inline.hpp>

#ifdef REEF_COMPILED
#include <mpi.h>

#if defined(OPEN_MPI)
#define REEF_COMPILED_COMM the_compiled_library_of_reef_for_Open_MPI
#elif defined(MPICH_VERSION)
#define REEF_COMPILED_COMM the_compiled_library_of_reef_for_MPICH
#else
#define REEF_COMPILED_COMM the_compiled_library_of_reef_for_this_MPI
#endif

namespace reef {
inline namespace v0 {
namespace comm::detail {

extern const char REEF_COMPILED_COMM;

[[gnu::used]] inline const char* const compiled_comm = &REEF_COMPILED_COMM;

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
#endif
