#pragma once

#include <cstdio>

#include <reef/comm/detail/lifetime.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE bool has_ended() {
  const std::scoped_lock lock(lifetime.mutex);
  return lifetime.ended;
}

REEF_INLINE void require_mpi(std::string_view who) {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  const bool over = ended != 0 || has_ended();
  if (started != 0 && !over) return;
  throw MpiError(who,
                 over ? ": its comm::Environment has ended, and MPI with it."
                      : ": there is no comm::Environment, so MPI has not been started.",
                 "\n  fix: one comm::Environment in main, made before whatever communicates, such "
                 "as a Trainer, and "
                 "destroyed after it.");
}

REEF_INLINE MpiUser::MpiUser(std::string_view who) {
  require_mpi(who);
  const std::scoped_lock lock(lifetime.mutex);
  if (lifetime.users++ == 0) MPI_Comm_rank(MPI_COMM_WORLD, &lifetime.rank);
}

/// Frees what Reef has of MPI, and ends it.
inline void finalize() {
  if (meeting_place != MPI_COMM_NULL) MPI_Comm_free(&meeting_place);
  MPI_Finalize();
}

REEF_INLINE MpiUser::~MpiUser() {
  {
    const std::scoped_lock lock(lifetime.mutex);
    if (--lifetime.users > 0 || !lifetime.ended) return;
  }
  if (std::uncaught_exceptions() == exceptions_) finalize();
}

REEF_INLINE void end_mpi() {
  {
    const std::scoped_lock lock(lifetime.mutex);
    lifetime.ended = true;
    if (lifetime.users == 0) {
      finalize();
      return;
    }
  }
  if (lifetime.rank != 0) return;
  std::fputs(
      "reef::comm::Environment: it ends before a Progress object, perhaps that of a Trainer.\n  "
      "state: MPI ends with the "
      "last of these instead.\n  fix: make the Environment first, and destroy it last.\n",
      stderr);
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
