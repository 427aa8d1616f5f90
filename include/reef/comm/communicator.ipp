#pragma once

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/lifetime.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

inline MPI_Comm copy_of(MPI_Comm parent, const std::string& name) {
  MPI_Comm copy = MPI_COMM_NULL;
  require_mpi("reef::comm::Communicator '" + name + "'");
  meet(parent, "the communicator '" + name + "'");
  const Watch watch("MPI_Comm_dup");
  check_mpi(MPI_Comm_dup(parent, &copy), "MPI_Comm_dup");
  return copy;
}

}  // namespace detail

REEF_INLINE Communicator::Communicator() : Communicator(MPI_COMM_WORLD) {}

REEF_INLINE Communicator::Communicator(MpiHandle parent, std::string name)
    : handle_(detail::copy_of(parent, name)), name_(std::move(name)) {
  adopt();
}

REEF_INLINE Communicator::Communicator(std::string name, MpiHandle owned)
    : handle_(owned), name_(std::move(name)) {
  adopt();
}

REEF_INLINE Communicator::Communicator(std::string name, Alone /*by itself*/)
    : handle_(MPI_COMM_NULL), alone_(true), name_(std::move(name)) {}

REEF_INLINE Communicator Communicator::alone(std::string name) { return {std::move(name), Alone()}; }

REEF_INLINE Communicator::Communicator(Communicator&& other) noexcept
    : handle_(std::exchange(other.handle_, MpiHandle(MPI_COMM_NULL))),
      rank_(other.rank_),
      size_(other.size_),
      alone_(std::exchange(other.alone_, false)),
      name_(std::move(other.name_)) {}

REEF_INLINE Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(alone_, other.alone_);
  std::swap(name_, other.name_);
  return *this;
}

REEF_INLINE Communicator::~Communicator() {
  // Freeing is collective in the standard: a rank that unwinds must not wait for the others.
  MPI_Comm own = handle_;
  if (own != MPI_COMM_NULL && Environment::active() && std::uncaught_exceptions() == 0) {
    MPI_Comm_free(&own);
  }
}

REEF_INLINE void Communicator::abandon() { handle_ = MPI_COMM_NULL; }

REEF_INLINE Communicator Communicator::split(int color, int key, std::string name) const {
  if (alone_) return alone(std::move(name));
  MPI_Comm part = MPI_COMM_NULL;
  detail::require_mpi("reef::comm::Communicator '" + name + "'");
  detail::meet(handle_, "the communicator '" + name + "'");
  const detail::Watch watch("MPI_Comm_split");
  detail::check_mpi(MPI_Comm_split(handle_, color, key, &part), "MPI_Comm_split");
  return Communicator(std::move(name), part);
}

REEF_INLINE Communicator Communicator::shared_node() const {
  if (alone_) return alone(name_ + ".node");
  MPI_Comm part = MPI_COMM_NULL;
  detail::require_mpi("reef::comm::Communicator '" + name_ + ".node'");
  detail::meet(handle_, "the communicator of a node of '" + name_ + "'");
  const detail::Watch watch("MPI_Comm_split_type");
  detail::check_mpi(MPI_Comm_split_type(handle_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &part),
                    "MPI_Comm_split_type");
  return Communicator(name_ + ".node", part);
}

REEF_INLINE void Communicator::adopt() {
  detail::check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  // For debuggers and MPI profilers.
  detail::check_mpi(MPI_Comm_set_name(handle_, name_.substr(0, MPI_MAX_OBJECT_NAME - 1).c_str()),
                    "MPI_Comm_set_name");
  detail::check_mpi(MPI_Comm_rank(handle_, &rank_), "MPI_Comm_rank");
  detail::check_mpi(MPI_Comm_size(handle_, &size_), "MPI_Comm_size");
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
