#pragma once

#include <cstdlib>

#include <reef/comm/detail/launch.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE std::string library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "this MPI";
  const std::string_view whole(text.data());
  std::string name;
  for (const char c : whole.substr(0, whole.find_first_of(",\n"))) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) name += c;
    if (blank && !name.empty() && name.back() != ' ') name += ' ';
  }
  return name;
}

REEF_INLINE void check_launch() {
  int size = 0;
  MPI_Comm parent = MPI_COMM_NULL;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  check_mpi(MPI_Comm_get_parent(&parent), "MPI_Comm_get_parent");
  if (size != 1 || parent != MPI_COMM_NULL) return;
  const auto variables = [](const char* name) -> const char* { return std::getenv(name); };
  if (const auto why = strayed(variables, own_size_variable, library_name())) throw MpiError(*why);
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
