#pragma once

#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include <reef/comm/detail/launch.hpp>
#include <reef/comm/detail/room.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::comm {

/// Starts MPI for the time of its life, with SIGPIPE ignored.
///
/// | who      | every rank, once, from main, before any Communicator                               |
/// | threads  | asks for MPI_THREAD_MULTIPLE; MPI_THREAD_SERIALIZED is enough, since the Progress  |
/// |          | thread makes all calls while it lives                                              |
/// | nested   | a second Environment, or one after the program's own MPI_Init_thread, changes      |
/// |          | nothing and finalizes nothing                                                      |
/// | deadline | how long start-up, this and every Communicator and Progress, waits for ranks that do  |
/// |          | not come; 0: for ever                                                              |
/// | launch   | a process that is alone in MPI_COMM_WORLD though a launcher started it with others  |
/// |          | is refused, unless REEF_SINGLE_RANK=1 says that it is meant                        |
/// | room     | where /dev/shm has too little for MPI's own shared memory, MPI is asked to leave it |
/// | unwinding| destroyed by an exception it does not finalize (that would wait for ranks that no  |
/// |          | longer come): the process ends without, and the launcher then ends the job         |
/// | errors   | MpiError if the library grants fewer threads than SERIALIZED, or for the launch     |
class Environment {
public:
  static constexpr Seconds default_deadline = 600;

  Environment() { start(nullptr, nullptr, default_deadline); }
  Environment(int& argc, char**& argv, Seconds deadline = default_deadline) {
    start(&argc, &argv, deadline);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  ~Environment() {
    if (!owner_ || std::uncaught_exceptions() != exceptions_) return;
    if (detail::meeting_place != MPI_COMM_NULL) MPI_Comm_free(&detail::meeting_place);
    MPI_Finalize();
  }

  /// True between MPI_Init and MPI_Finalize, whoever called them.
  static bool active() {
    int started = 0;
    int ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    return started != 0 && ended == 0;
  }

private:
  void start(int* argc, char*** argv, Seconds deadline) {
    // A peer that dies while a TCP transport writes to it would end this process too, silently.
    std::signal(SIGPIPE, SIG_IGN);
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended != 0) {
      throw MpiError(
          "reef::comm::Environment: MPI was finalized before, and cannot be started twice.\n"
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
      check(provided);
    } catch (const MpiError&) {
      if (owner_) MPI_Finalize();
      throw;
    }
    if (!owner_) return;
    const detail::Watch watch("MPI_Comm_dup");
    detail::check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &detail::meeting_place), "MPI_Comm_dup");
  }

  static void check(int provided) {
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

  bool owner_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

/// Says on standard error why this program cannot go on, and returns what main is to return then:
///
///     int main(int argc, char** argv) try {
///       const comm::Environment mpi(argc, argv);
///       ...
///     } catch (const std::exception& error) {
///       return comm::report_failure("my-program", error);
///     }
///
/// What all ranks found is said once, and what one rank found by that rank: rank 0 speaks at once, another two
/// seconds later, and who has it from another rank after four. By then a launcher has ended a job of which a rank has
/// failed (Open MPI takes a second). No rank waits for another. Call it in the handler.
inline int report_failure(std::string_view program, const std::exception& error) {
  int rank = 0;
  if (Environment::active()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int seconds = rank == 0 ? 0 : 2;
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const PeerError&) {
    seconds = 4;
  } catch (...) {
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const std::string text = concat(program, ": ", error.what(), "\n");
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return EXIT_FAILURE;
}

}  // namespace reef::inline v0::comm
