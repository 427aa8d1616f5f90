#pragma once

#include <mpi.h>

#include <string>
#include <utility>

#include <reef/comm/detail/start.hpp>
#include <reef/comm/environment.hpp>
#include <reef/comm/error.hpp>

namespace reef::inline v0::comm {

/// A private duplicate of a group of ranks: its messages meet nobody else's.
///
/// | who    | every rank of the parent calls the constructor, split and shared_node: collective, block |
/// | errors | calls on it return codes (MPI_ERRORS_RETURN) and throw MpiError; DeadlineError names    |
/// |        | who does not come within the Environment's deadline                                     |
class Communicator {
public:
  /// Duplicates `parent`.
  explicit Communicator(MPI_Comm parent = MPI_COMM_WORLD, std::string name = "world")
      : name_(std::move(name)) {
    MPI_Comm copy = MPI_COMM_NULL;
    detail::meet(parent, "the communicator '" + name_ + "'");
    const detail::Watch watch("MPI_Comm_dup");
    detail::check_mpi(MPI_Comm_dup(parent, &copy), "MPI_Comm_dup");
    adopt(copy);
  }

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&& other) noexcept
      : handle_(std::exchange(other.handle_, MPI_COMM_NULL)),
        rank_(other.rank_),
        size_(other.size_),
        name_(std::move(other.name_)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(rank_, other.rank_);
    std::swap(size_, other.size_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~Communicator() {
    // Freeing is collective in the standard: a rank that unwinds must not wait for the others.
    if (handle_ != MPI_COMM_NULL && Environment::active() && std::uncaught_exceptions() == 0) {
      MPI_Comm_free(&handle_);
    }
  }

  /// Never frees it: messages that nobody received would meet the next communicator to which MPI
  /// gives the same number.
  void abandon() { handle_ = MPI_COMM_NULL; }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] MPI_Comm handle() const { return handle_; }

  /// The ranks that give the same `color`, ordered by `key`, then by rank here.
  [[nodiscard]] Communicator split(int color, int key, std::string name) const {
    MPI_Comm part = MPI_COMM_NULL;
    detail::meet(handle_, "the communicator '" + name + "'");
    const detail::Watch watch("MPI_Comm_split");
    detail::check_mpi(MPI_Comm_split(handle_, color, key, &part), "MPI_Comm_split");
    return Communicator(std::move(name), part);
  }

  /// The ranks that share memory with this one, in the order of their ranks here.
  [[nodiscard]] Communicator shared_node() const {
    MPI_Comm part = MPI_COMM_NULL;
    detail::meet(handle_, "the communicator of a node of '" + name_ + "'");
    const detail::Watch watch("MPI_Comm_split_type");
    detail::check_mpi(
        MPI_Comm_split_type(handle_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &part),
        "MPI_Comm_split_type");
    return Communicator(name_ + ".node", part);
  }

private:
  Communicator(std::string name, MPI_Comm owned) : name_(std::move(name)) { adopt(owned); }

  void adopt(MPI_Comm owned) {
    handle_ = owned;
    detail::check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN),
                      "MPI_Comm_set_errhandler");
    // For debuggers and MPI profilers.
    detail::check_mpi(MPI_Comm_set_name(handle_, name_.substr(0, MPI_MAX_OBJECT_NAME - 1).c_str()),
                      "MPI_Comm_set_name");
    detail::check_mpi(MPI_Comm_rank(handle_, &rank_), "MPI_Comm_rank");
    detail::check_mpi(MPI_Comm_size(handle_, &size_), "MPI_Comm_size");
  }

  MPI_Comm handle_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::string name_;
};

}  // namespace reef::inline v0::comm
