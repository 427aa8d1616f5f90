#pragma once

#include <array>
#include <string>

#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

/// The library's own words for an MPI error code.
inline std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "unknown error";
  return {text.data(), static_cast<std::size_t>(length)};
}

REEF_INLINE void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw MpiError("reef::comm: ", call, " failed with code ", code, ": ", mpi_error_text(code));
}

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef
