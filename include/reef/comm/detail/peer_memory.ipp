#pragma once

#if defined(__linux__)
#include <sys/uio.h>
#include <unistd.h>
#endif

#include <cerrno>
#include <cstddef>
#include <utility>

#include <reef/comm/detail/peer_memory.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE bool PeerMemory::connect(std::vector<Place> places) {
  places_ = std::move(places);
  for (int rank = 0; rank < static_cast<int>(places_.size()); ++rank) {
    if (probe(rank) != 0) return false;
  }
  return true;
}

REEF_INLINE int PeerMemory::read(int rank, void* to, std::uintptr_t from, Bytes bytes) const {
#if defined(__linux__)
  const iovec local{to, static_cast<std::size_t>(bytes)};
  const iovec remote{reinterpret_cast<void*>(from), static_cast<std::size_t>(bytes)};
  const auto process = static_cast<pid_t>(places_[static_cast<std::size_t>(rank)].process);
  const ssize_t done = process_vm_readv(process, &local, 1, &remote, 1, 0);
  if (done < 0) return errno;
  return done == static_cast<ssize_t>(bytes) ? 0 : EFAULT;
#else
  static_cast<void>(rank), static_cast<void>(to), static_cast<void>(from);
  return bytes == 0 ? 0 : ENOSYS;
#endif
}

REEF_INLINE int PeerMemory::probe(int rank) const {
  const Place& place = places_[static_cast<std::size_t>(rank)];
  std::uint64_t found = 0;
  const int code = read(rank, &found, place.probe, sizeof found);
  return code == 0 && found != place.secret ? ESRCH : code;
}

REEF_INLINE std::int64_t PeerMemory::process() {
#if defined(__linux__)
  return getpid();
#else
  return 0;
#endif
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
