#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Returns the path of a program: of one with a slash itself, of others the first in the folders of PATH. Throws
/// OptionError, which begins with `who` and ends with `fix`, where there is none that can be run.
std::filesystem::path find_program(const std::string& program, std::string_view who, std::string_view fix);

/// Returns a TCP port of 127.0.0.1 that was free a moment ago.
std::uint16_t free_loopback_port();

/// A process of another program, which ends with this object, and with the thread that has started it: where that is
/// killed, so is the process. Of one thread.
class OwnProcess {
public:
  /// Starts a program; what it prints is appended to the file `output`. Throws Error where it cannot be started.
  OwnProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
             std::filesystem::path output);

  /// Asks the process to end by SIGTERM, waits for that at most 5 s, and then kills it.
  ~OwnProcess();
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;

  [[nodiscard]] ::pid_t id() const { return id_; }

  /// Returns how the process has ended, with the last of what it printed; empty while it runs.
  [[nodiscard]] std::string why_ended();

private:
  [[nodiscard]] bool has_ended(bool wait);

  std::filesystem::path output_;
  ::pid_t id_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/own_process.ipp>
#endif
