#pragma once

#include <mpi.h>

#include <reef/comm/environment.hpp>
#include <reef/core/language.hpp>

#include <string>
#include <utility>

namespace reef {
inline namespace v0 {
namespace comm {

/// A private duplicate of a group of ranks: its messages meet nobody else's.
///
/// | who    | every rank of the parent calls the constructor, split and shared_node: collective, block |
/// | errors | calls on it return codes (MPI_ERRORS_RETURN) and throw MpiError; DeadlineError names    |
/// |        | who does not come within the Environment's deadline                                     |
///
/// \code
/// const comm::Communicator world;
/// const comm::Communicator node = world.shared_node();
/// const comm::Communicator half = world.split(world.rank() % 2, world.rank(), "half");
/// \endcode
class Communicator {
public:
  /// Duplicates `parent`.
  explicit Communicator(MPI_Comm parent = MPI_COMM_WORLD, std::string name = "world");

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&& other) noexcept
      : handle_(std::exchange(other.handle_, MPI_COMM_NULL)),
        rank_(other.rank_),
        size_(other.size_),
        name_(std::move(other.name_)) {}
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  /// Never frees it: messages that nobody received would meet the next communicator to which MPI
  /// gives the same number.
  void abandon() { handle_ = MPI_COMM_NULL; }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& name() const& { return name_; }
  [[nodiscard]] std::string name() const&& { return name_; }
  [[nodiscard]] MPI_Comm handle() const { return handle_; }

  /// The ranks that give the same `color`, ordered by `key`, then by rank here.
  [[nodiscard]] Communicator split(int color, int key, std::string name) const;

  /// The ranks that share memory with this one, in the order of their ranks here.
  [[nodiscard]] Communicator shared_node() const;

private:
  Communicator(std::string name, MPI_Comm owned) : name_(std::move(name)) { adopt(owned); }

  void adopt(MPI_Comm owned);

  MPI_Comm handle_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::string name_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/communicator.ipp>
#endif
