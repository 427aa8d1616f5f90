#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#if defined(__linux__)
#include <sys/statvfs.h>
#endif

#include <reef/comm/detail/launch.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::comm::detail {

/// What MPI libraries take of /dev/shm for each rank of a machine, with some to spare. They ask for it
/// rank by rank without keeping it, and die by SIGBUS when they touch what is not there.
inline constexpr Bytes shared_memory_of_rank = (Bytes{4} << 20) + (Bytes{256} << 10);

/// How the MPI that this is compiled with is told to carry messages without /dev/shm: over loopback, or
/// in System V shared memory.
#if defined(OPEN_MPI)
inline constexpr const char* way_variable = "OMPI_MCA_btl";
inline constexpr const char* way_without = "^vader,ofi";
inline constexpr const char* local_ranks_variable = "OMPI_COMM_WORLD_LOCAL_SIZE";
inline constexpr const char* local_rank_variable = "OMPI_COMM_WORLD_LOCAL_RANK";
#else
inline constexpr const char* way_variable = "UCX_TLS";
inline constexpr const char* way_without = "^posix";
inline constexpr const char* local_ranks_variable = "MPI_LOCALNRANKS";
inline constexpr const char* local_rank_variable = "MPI_LOCALRANKID";
#endif

/// What is free in the file system of `path`; nothing where there is none.
inline std::optional<Bytes> free_bytes([[maybe_unused]] const char* path) {
#if defined(__linux__)
  struct statvfs system {};
  if (statvfs(path, &system) == 0) {
    return static_cast<Bytes>(system.f_bavail) * static_cast<Bytes>(system.f_frsize);
  }
#endif
  return {};
}

/// Before MPI_Init: sees to it that MPI does without /dev/shm where that has no room for the ranks of
/// this machine, and says so once. A way that the user has chosen is left alone.
inline void leave_room() {
  const auto variables = [](const char* name) -> const char* { return std::getenv(name); };
  const int ranks = ranks_in(variables, local_ranks_variable);
  const std::optional<Bytes> room = free_bytes("/dev/shm");
  const Bytes needed = static_cast<Bytes>(ranks) * shared_memory_of_rank;
  if (ranks < 2 || !room || *room >= needed || std::getenv(way_variable) != nullptr) return;
  setenv(way_variable, way_without, 0);
  const char* const local = std::getenv(local_rank_variable);
  if (local == nullptr || std::string_view(local) != "0") return;
  std::fprintf(stderr,
               "reef::comm: messages between ranks of this machine go without /dev/shm (%s=%s).\n"
               "  why: it has %s free, and MPI may take %s for %d ranks.\n"
               "  fix: if they are slow, a larger one (docker run --shm-size=1g).\n",
               way_variable, way_without, format_bytes(*room).c_str(), format_bytes(needed).c_str(),
               ranks);
}

}  // namespace reef::inline v0::comm::detail
