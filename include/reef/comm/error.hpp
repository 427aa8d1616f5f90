#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include <reef/core/error.hpp>

namespace reef::inline v0::comm {

/// An MPI call that failed, or ranks that do not do the same thing. The Progress object that
/// reports it is unusable afterwards, and the contents of unfinished tasks' buffers are unspecified.
class MpiError : public Error {
public:
  using Error::Error;
};

/// Ranks that did not arrive in time: the text says which, at what, and what each was doing last.
/// The Progress object that reports it is unusable afterwards.
class DeadlineError : public MpiError {
public:
  using MpiError::MpiError;
};

/// What another rank has reported: the text names the rank, and has its words. That rank says more itself. The
/// Progress object that passes it on is unusable afterwards.
class PeerError : public MpiError {
public:
  using MpiError::MpiError;
};

namespace detail {

/// The library's own words for an MPI error code.
inline std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "unknown error";
  return {text.data(), static_cast<std::size_t>(length)};
}

/// Throws MpiError unless `code` is MPI_SUCCESS. `call` is the name of the MPI function.
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw MpiError("reef::comm: ", call, " failed with code ", code, ": ", mpi_error_text(code));
}

/// While it lives, errors of calls that belong to no communicator (MPI_Testsome) come back as codes
/// too: MPI reports them to MPI_COMM_WORLD, or to MPI_COMM_SELF since MPI 4.0.
class ReturnedErrors {
public:
  ReturnedErrors() {
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world_);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &self_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  ReturnedErrors(const ReturnedErrors&) = delete;
  ReturnedErrors& operator=(const ReturnedErrors&) = delete;
  ~ReturnedErrors() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, world_);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, self_);
    MPI_Errhandler_free(&world_);
    MPI_Errhandler_free(&self_);
  }

private:
  MPI_Errhandler world_{};
  MPI_Errhandler self_{};
};

}  // namespace detail

}  // namespace reef::inline v0::comm
