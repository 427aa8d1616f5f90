#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <reef/comm/detail/launch.hpp>
#include <reef/comm/detail/lifetime.hpp>
#include <reef/comm/detail/room.hpp>
#include <reef/comm/detail/signalled.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/environment.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE Environment::~Environment() {
  if (owner_ && std::uncaught_exceptions() == exceptions_) detail::end_mpi();
}

REEF_INLINE bool Environment::active() {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started != 0 && ended == 0;
}

REEF_INLINE void Environment::start(int* argc, char*** argv, Seconds deadline) {
  // A peer that dies while a TCP transport writes to it would end this process too, silently.
  std::signal(SIGPIPE, SIG_IGN);
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0 || detail::has_ended()) {
    throw MpiError(
        "reef::comm::Environment: one has ended before, and MPI cannot be started twice.\n"
        "  fix: keep one Environment in main for the whole run.");
  }
  int provided = MPI_THREAD_SINGLE;
  if (active()) {
    detail::check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    detail::start_deadline = deadline;
    detail::leave_room();
    const detail::Watch watch("MPI_Init_thread");
    detail::check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided),
                      "MPI_Init_thread");
    owner_ = true;
  }
  try {
    check_thread_level(provided);
  } catch (const MpiError&) {
    if (owner_) MPI_Finalize();
    throw;
  }
  if (!owner_) return;
  const detail::Watch watch("MPI_Comm_dup");
  detail::check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &detail::meeting_place), "MPI_Comm_dup");
}

REEF_INLINE void Environment::check_thread_level(int provided) {
  if (provided < MPI_THREAD_SERIALIZED) {
    throw MpiError(
        "reef::comm::Environment: this MPI grants thread level ", provided,
        ", but communication runs on a thread of its own (MPI_THREAD_SERIALIZED = ",
        MPI_THREAD_SERIALIZED,
        ").\n  fix: call MPI_Init_thread with MPI_THREAD_SERIALIZED or more, or let Environment "
        "do it, and use an MPI that was built with thread support.");
  }
  detail::check_launch();
}

namespace detail {

/// The number of this rank, of which the launcher's variables tell before MPI does.
inline int rank_of_process() {
  int rank = 0;
  if (Environment::active()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) return parse_number<int>(value).value_or(0);
  }
  return 0;
}

}  // namespace detail

REEF_INLINE int report_failure(std::string_view text) {
  using std::chrono::milliseconds;
  milliseconds left(detail::rank_of_process() == 0 ? 0 : 3000);
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const PeerError&) {
    left = milliseconds(5000);
  } catch (...) {
  }
  // Another rank that ends with the same error has the launcher end this one: by a signal, and a second later by force.
  bool may_be_signalled = detail::Signalled::first == 0;
  for (constexpr milliseconds look(20); left.count() > 0; left -= look) {
    std::this_thread::sleep_for(look);
    if (may_be_signalled && detail::Signalled::first != 0) {
      left += milliseconds(4000);
      may_be_signalled = false;
    }
  }
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return EXIT_FAILURE;
}

REEF_INLINE int report_failure(std::string_view program, const std::exception& error) {
  return report_failure(concat(program, ": ", error.what(), "\n"));
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
