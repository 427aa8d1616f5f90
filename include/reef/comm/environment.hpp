#pragma once

#include <exception>
#include <string_view>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// Starts MPI for the lifetime of the object, with SIGPIPE ignored.
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
/// | end      | destroyed before a Progress object, such as a Trainer's, it says so on standard error, |
/// |          | and MPI ends with the last of these; what is made after it is an MpiError           |
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

  ~Environment();

  /// True between MPI_Init and MPI_Finalize, whoever called them.
  static bool active();

private:
  void start(int* argc, char*** argv, Seconds deadline);

  static void check_thread_level(int provided);

  bool owner_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

/// Says on standard error why this program cannot go on, and returns what main is to return then:
///
/// \code
/// int main(int argc, char** argv) try {
///   const comm::Environment mpi(argc, argv);
///   // ...
///   return 0;
/// } catch (const std::exception& error) {
///   return comm::report_failure("my-program", error);
/// }
/// \endcode
///
/// An error that all ranks have is printed once, also before MPI is started, an error of one rank by that rank: rank 0
/// prints at once, other ranks after two seconds, and a rank that was told of the error by another one (PeerError) after four. By then a
/// launcher has ended a job of which a rank has failed (Open MPI takes a second). No rank waits for another. Call it
/// in the handler.
int report_failure(std::string_view program, const std::exception& error);

/// Says on standard error why this program cannot go on, with a text that is complete, its last newline too; returns
/// what main is to return then.
int report_failure(std::string_view text);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/environment.ipp>
#endif
