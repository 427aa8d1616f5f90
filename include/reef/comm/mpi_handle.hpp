#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

/// True if T is MPI_Comm: comm/mpi.hpp, which includes <mpi.h>, specialises this template.
template <class T>
inline constexpr bool is_mpi_comm = false;

}  // namespace detail

/// An MPI_Comm, for headers that do not include <mpi.h>. Where <reef/comm/mpi.hpp> is included, an MPI_Comm and an
/// MpiHandle convert to each other implicitly.
///
/// \code
/// #include <reef/comm/mpi.hpp>
/// // given: const comm::Communicator& world
/// MPI_Barrier(world.handle());
/// \endcode
class MpiHandle {
public:
  template <class Comm>
    requires detail::is_mpi_comm<Comm> MpiHandle(Comm comm) {
      static_assert(sizeof(Comm) <= sizeof(bytes_) && std::is_trivially_copyable_v<Comm>);
      std::memcpy(bytes_, &comm, sizeof comm);
    }

  template <class Comm>
    requires detail::is_mpi_comm<Comm>
  operator Comm() const {
    Comm comm;
    std::memcpy(&comm, bytes_, sizeof comm);
    return comm;
  }

private:
  alignas(void*) std::byte bytes_[sizeof(void*)]{};
};

}  // namespace comm
}  // namespace v0
}  // namespace reef
