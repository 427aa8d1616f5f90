#pragma once

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/lifetime.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/error.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE Communicator::Communicator(MPI_Comm parent, std::string name) : name_(std::move(name)) {
  MPI_Comm copy = MPI_COMM_NULL;
  detail::require_mpi("reef::comm::Communicator '" + name_ + "'");
  detail::meet(parent, "the communicator '" + name_ + "'");
  const detail::Watch watch("MPI_Comm_dup");
  detail::check_mpi(MPI_Comm_dup(parent, &copy), "MPI_Comm_dup");
  adopt(copy);
}

REEF_INLINE Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(name_, other.name_);
  return *this;
}

REEF_INLINE Communicator::~Communicator() {
  // Freeing is collective in the standard: a rank that unwinds must not wait for the others.
  if (handle_ != MPI_COMM_NULL && Environment::active() && std::uncaught_exceptions() == 0) {
    MPI_Comm_free(&handle_);
  }
}

REEF_INLINE Communicator Communicator::split(int color, int key, std::string name) const {
  MPI_Comm part = MPI_COMM_NULL;
  detail::require_mpi("reef::comm::Communicator '" + name + "'");
  detail::meet(handle_, "the communicator '" + name + "'");
  const detail::Watch watch("MPI_Comm_split");
  detail::check_mpi(MPI_Comm_split(handle_, color, key, &part), "MPI_Comm_split");
  return Communicator(std::move(name), part);
}

REEF_INLINE Communicator Communicator::shared_node() const {
  MPI_Comm part = MPI_COMM_NULL;
  detail::require_mpi("reef::comm::Communicator '" + name_ + ".node'");
  detail::meet(handle_, "the communicator of a node of '" + name_ + "'");
  const detail::Watch watch("MPI_Comm_split_type");
  detail::check_mpi(MPI_Comm_split_type(handle_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &part),
                    "MPI_Comm_split_type");
  return Communicator(name_ + ".node", part);
}

REEF_INLINE void Communicator::adopt(MPI_Comm owned) {
  handle_ = owned;
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
