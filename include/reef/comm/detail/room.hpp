#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#if defined(__linux__)
#include <sys/statvfs.h>
#endif

#include <reef/comm/detail/launch.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// What MPI libraries take of /dev/shm for each rank of a machine, with some to spare. They ask for it
/// rank by rank without keeping it, and die by SIGBUS when they touch what is not there.
inline constexpr Bytes shared_memory_of_rank = (Bytes{4} << 20) + (Bytes{256} << 10);

/// What asks the MPI that this is compiled with to carry messages without /dev/shm: over loopback, or in
/// System V shared memory. Which one is heard depends on what it was built with.
struct Way {
  const char* variable;
  const char* value;
};
#if defined(OPEN_MPI)
inline constexpr std::array<Way, 2> ways_without{
    {{"OMPI_MCA_btl", "^vader,ofi"}, {"UCX_TLS", "^posix"}}};
inline constexpr const char* local_ranks_variable = "OMPI_COMM_WORLD_LOCAL_SIZE";
inline constexpr const char* local_rank_variable = "OMPI_COMM_WORLD_LOCAL_RANK";
#else
inline constexpr std::array<Way, 2> ways_without{{{"UCX_TLS", "^posix"}, {"FI_PROVIDER", "^shm"}}};
inline constexpr const char* local_ranks_variable = "MPI_LOCALNRANKS";
inline constexpr const char* local_rank_variable = "MPI_LOCALRANKID";
#endif

/// What is free in the file system of `path`; nothing where there is none.
std::optional<Bytes> free_bytes(const char* path);

/// Before MPI_Init: tries to have MPI do without /dev/shm where that has no room for the ranks of this machine. A
/// variable that the user has set is left alone. Returns what one rank of the machine is to say: nothing on the
/// others, and where there is room. `variables(name)` is a variable of the environment, or null;
/// `set(name, value)` sets one.
template <class Variables, class Set>
std::string leave_room(std::optional<Bytes> room, const Variables& variables, const Set& set) {
  const int ranks = ranks_in(variables, local_ranks_variable);
  const Bytes needed = static_cast<Bytes>(ranks) * shared_memory_of_rank;
  if (ranks < 2 || !room || *room >= needed) return {};
  std::string asked;
  for (const Way& way : ways_without) {
    if (variables(way.variable) != nullptr) continue;
    set(way.variable, way.value);
    asked += concat(asked.empty() ? "" : ", ", way.variable, "=", way.value);
  }
  const char* const local = variables(local_rank_variable);
  if (asked.empty() || local == nullptr || std::string_view(local) != "0") return {};
  return concat(
      "reef::comm: MPI is asked to carry messages between ranks of this machine without /dev/shm (",
      asked, ").\n  why: it has ", format_bytes(*room), " free, and MPI may take ",
      format_bytes(needed), " for ", ranks,
      " ranks.\n  fix: a larger one (docker run --shm-size=1g), if they are slow, or if MPI "
      "does not heed that and dies of SIGBUS.\n");
}

void leave_room();

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/room.ipp>
#endif
