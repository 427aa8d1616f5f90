#pragma once

#include <mutex>
#include <string_view>

namespace reef::inline v0::comm::detail {

/// Who uses MPI: an Environment that ends meanwhile leaves its end to the last of them.
struct Lifetime {
  std::mutex mutex;
  int users = 0;       ///< Progress objects
  bool ended = false;  ///< the Environment that started MPI
};
inline Lifetime lifetime;

/// Throws MpiError, which names `who` wants it, unless MPI has been started and its Environment has not ended.
void require_mpi(std::string_view who);

/// Keeps MPI alive.
class MpiUser {
public:
  /// Throws as require_mpi.
  explicit MpiUser(std::string_view who);
  MpiUser(const MpiUser&) = delete;
  MpiUser& operator=(const MpiUser&) = delete;
  ~MpiUser();
};

/// The Environment that started MPI has ended.
bool has_ended();

/// Ends MPI, now or with the last of its users: then says so, on rank 0.
void end_mpi();

}  // namespace reef::inline v0::comm::detail

#ifndef REEF_COMPILED
#include <reef/comm/detail/lifetime.ipp>
#endif
