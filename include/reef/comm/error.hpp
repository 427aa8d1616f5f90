#pragma once

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The error of a failed MPI call, or of ranks whose operations do not match. The Progress object that
/// reports it is unusable afterwards, and the contents of unfinished tasks' buffers are unspecified.
class MpiError : public Error {
public:
  using Error::Error;
};

/// The error of ranks that did not arrive in time: the text names them, the operation, and what each was doing last.
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

/// An error that another rank has reported: the text names that rank, and quotes its error. That
/// rank itself reports more. The Progress object that passes the error on is unusable afterwards.
class PeerError : public MpiError {
public:
  using MpiError::MpiError;
};

namespace detail {

/// Throws MpiError unless `code`, an MPI function's result, is MPI_SUCCESS. `call` is the name of the function.
void check_mpi(int code, const char* call);

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/error.ipp>
#endif
