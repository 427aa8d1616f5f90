#pragma once

#include <reef/comm/environment.hpp>
#include <reef/comm/mpi_handle.hpp>
#include <reef/core/language.hpp>

#include <string>
#include <utility>

namespace reef {
inline namespace v0 {
namespace comm {

/// A private duplicate of an MPI communicator: its messages never match receives of another communicator.
///
/// | who    | every rank of the parent calls the constructor, split and shared_node: collective, block     |
/// | errors | MPI calls on it return error codes (MPI_ERRORS_RETURN), thrown as MpiError; DeadlineError    |
/// |        | names the ranks that do not arrive within the Environment's deadline                         |
/// | MPI    | with <reef/comm/mpi.hpp> included, an MPI_Comm can be a parent, and handle() converts to one |
///
/// \code
/// const comm::Communicator world;
/// const comm::Communicator node = world.shared_node();
/// const comm::Communicator half = world.split(world.rank() % 2, world.rank(), "half");
/// const comm::Communicator here = comm::Communicator::alone();  // without MPI
/// \endcode
class Communicator {
public:
  /// Duplicates MPI_COMM_WORLD.
  Communicator();
  /// Duplicates `parent`, which stays the caller's. Errors, debuggers and profilers call the duplicate `name`.
  explicit Communicator(MpiHandle parent, std::string name = "world");
  /// Returns a communicator of this process alone, which uses no MPI,
  /// so that MPI need not be started. Its handle is MPI_COMM_NULL.
  [[nodiscard]] static Communicator alone(std::string name = "alone");

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  /// Releases the communicator without freeing it: otherwise MPI could give its number to another communicator, which
  /// would receive the messages that nobody received from this one.
  void abandon();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& name() const& { return name_; }
  [[nodiscard]] std::string name() const&& { return name_; }
  [[nodiscard]] MpiHandle handle() const { return handle_; }
  /// Returns true if alone() created this communicator, or the one from which it was split.
  [[nodiscard]] bool is_alone() const { return alone_; }

  /// Returns the communicator of the ranks that pass the same `color`, ordered by `key`, then by rank in this one.
  [[nodiscard]] Communicator split(int color, int key, std::string name) const;

  /// Returns the communicator of the ranks that share memory with this rank, in the order of their ranks in this one.
  [[nodiscard]] Communicator shared_node() const;

private:
  struct Alone {};  // a type of its own: a pointer or an int, which MPI_Comm may be, is a bool too

  Communicator(std::string name, MpiHandle owned);
  Communicator(std::string name, Alone /*by itself*/);

  void adopt();

  MpiHandle handle_;
  int rank_ = 0;
  int size_ = 1;
  bool alone_ = false;
  std::string name_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/communicator.ipp>
#endif
