#pragma once

#include <cstdio>
#include <cstdlib>

#include <reef/comm/detail/room.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE std::optional<Bytes> free_bytes([[maybe_unused]] const char* path) {
#if defined(__linux__)
  struct statvfs system {};
  if (statvfs(path, &system) == 0) {
    return static_cast<Bytes>(system.f_bavail) * static_cast<Bytes>(system.f_frsize);
  }
#endif
  return {};
}

REEF_INLINE void leave_room() {
  const auto variables = [](const char* name) -> const char* { return std::getenv(name); };
  const auto set = [](const char* name, const char* value) { ::setenv(name, value, 0); };
  std::fputs(leave_room(free_bytes("/dev/shm"), variables, set).c_str(), stderr);
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
