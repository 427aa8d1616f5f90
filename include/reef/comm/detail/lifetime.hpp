#pragma once

#include <exception>
#include <mutex>
#include <string_view>

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// Who uses MPI: an Environment that ends meanwhile leaves its end to the last of them.
struct Lifetime {
  std::mutex mutex;
  int users = 0;       ///< Progress objects
  bool ended = false;  ///< the Environment that started MPI
  int rank = 0;        ///< in MPI_COMM_WORLD
};
REEF_OF_THE_PROCESS inline Lifetime lifetime;

/// Throws MpiError, which names `who` wants it, unless MPI has been started and its Environment has not ended.
void require_mpi(std::string_view who);

/// Keeps MPI alive. The last one ends it where its Environment has ended, but while an exception unwinds the stack: the
/// other ranks may not come to the end that MPI waits for.
class MpiUser {
public:
  /// Throws as require_mpi.
  explicit MpiUser(std::string_view who);
  MpiUser(const MpiUser&) = delete;
  MpiUser& operator=(const MpiUser&) = delete;
  ~MpiUser();

private:
  int exceptions_ = std::uncaught_exceptions();
};

/// The Environment that started MPI has ended.
bool has_ended();

/// Ends MPI, now or with the last of its users: then says so, on rank 0.
void end_mpi();

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/lifetime.ipp>
#endif
