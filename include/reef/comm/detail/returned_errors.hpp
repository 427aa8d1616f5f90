#pragma once

#include <reef/comm/mpi.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// While it lives, errors of calls that belong to no communicator (MPI_Testsome) come back as codes
/// too: MPI reports them to MPI_COMM_WORLD, or to MPI_COMM_SELF since MPI 4.0.
class ReturnedErrors {
public:
  ReturnedErrors();
  ReturnedErrors(const ReturnedErrors&) = delete;
  ReturnedErrors& operator=(const ReturnedErrors&) = delete;
  ~ReturnedErrors();

private:
  MPI_Errhandler world_{};
  MPI_Errhandler self_{};
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/returned_errors.ipp>
#endif
