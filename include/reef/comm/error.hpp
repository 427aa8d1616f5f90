#pragma once

#include <mpi.h>

#include <reef/comm/detail/flavour.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// An MPI call that failed, or ranks that do not do the same thing. The Progress object that
/// reports it is unusable afterwards, and the contents of unfinished tasks' buffers are unspecified.
class MpiError : public Error {
public:
  using Error::Error;
};

/// Ranks that did not arrive in time: the text says which, at what, and what each was doing last.
/// The Progress object that reports it is unusable afterwards.
///
/// \code
/// #include <cstdio>
/// // given: comm::Progress& progress, comm::Task& task
/// try {
///   progress.wait(task);
/// } catch (const comm::DeadlineError& error) {  // without ProgressOptions::abort_on_deadline
///   std::fputs(error.what(), stderr);
///   throw;
/// }
/// \endcode
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

/// Throws MpiError unless `code` is MPI_SUCCESS. `call` is the name of the MPI function.
void check_mpi(int code, const char* call);

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

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/error.ipp>
#endif
