#pragma once

#include <reef/comm/detail/returned_errors.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE ReturnedErrors::ReturnedErrors() {
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world_);
  MPI_Comm_get_errhandler(MPI_COMM_SELF, &self_);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

REEF_INLINE ReturnedErrors::~ReturnedErrors() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, world_);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, self_);
  MPI_Errhandler_free(&world_);
  MPI_Errhandler_free(&self_);
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
