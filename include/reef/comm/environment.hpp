#pragma once

#include <exception>
#include <string_view>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// An owner of MPI, which an Environment starts for its own lifetime. From its construction on SIGPIPE is ignored.
///
/// | who       | every rank, once, from main, before any Communicator                                          |
/// | threads   | requests MPI_THREAD_MULTIPLE; MPI_THREAD_SERIALIZED is enough, since the Progress             |
/// |           | thread makes all calls while it exists                                                        |
/// | nested    | a second Environment, or one after the program's own MPI_Init_thread, changes                 |
/// |           | nothing and finalizes nothing                                                                 |
/// | deadline  | how long the start of MPI, of a Communicator and of a Progress waits for ranks that do not    |
/// |           | arrive; 0: without limit                                                                      |
/// | launch    | a process that is alone in MPI_COMM_WORLD though a launcher started it with others            |
/// |           | is refused, unless REEF_SINGLE_RANK=1 states that this is intended                            |
/// | room      | where /dev/shm is too small for MPI's own shared memory, MPI is told not to use it            |
/// | end       | if it is destroyed before a Progress object, such as a Trainer's, it reports that on standard |
/// |           | error, and MPI ends with the last such object; constructing one afterwards throws MpiError    |
/// | unwinding | if an exception destroys it, it does not finalize MPI (that would wait for ranks that no      |
/// |           | longer arrive): the process ends without that, and the launcher then ends the job             |
/// | errors    | MpiError if MPI grants less than MPI_THREAD_SERIALIZED, or refuses the launch (above)         |
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

  /// Returns true between MPI_Init and MPI_Finalize, whoever has called these.
  static bool active();

private:
  void start(int* argc, char*** argv, Seconds deadline);

  static void check_thread_level(int provided);

  bool owner_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

/// Prints on standard error why this program cannot continue, and returns the value that main should return:
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
/// An error that occurs on all ranks is printed once, also before MPI is started; an error of one rank is
/// printed by that rank: rank 0 prints at once, other ranks after two seconds, and a rank that was told
/// of the error by another one (PeerError) after four. By then the launcher has ended a job with a failed
/// rank (Open MPI takes a second). No rank waits for another. Call it in the exception handler of main.
int report_failure(std::string_view program, const std::exception& error);

/// Prints on standard error `text`, which must be complete with its last newline and
/// states why this program cannot continue; returns the value that main should return.
int report_failure(std::string_view text);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/environment.ipp>
#endif
