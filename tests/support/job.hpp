#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

namespace reef::test {

/// How a command ended: its exit status (128 when a signal ended it), and what it printed on both
/// streams.
struct Ending {
  int status = 0;
  std::string output;
};

/// Runs a shell command. One that hangs, for `limit` seconds, is ended and fails the test.
inline Ending run_command(const std::string& command, int limit = 60) {
  const std::string limited = "timeout -k 2 " + std::to_string(limit) + " " + command + " 2>&1";
  Ending ending;
  std::FILE* const job = popen(limited.c_str(), "re");
  if (job == nullptr) {
    ADD_FAILURE() << "cannot run " << command;
    return ending;
  }
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), job) != nullptr) {
    ending.output += part.data();
  }
  const int status = pclose(job);
  ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  constexpr int timed_out = 124;  // timeout's own
  if (ending.status == timed_out) {
    ADD_FAILURE() << "not at an end after " << limit << " s: " << command << '\n' << ending.output;
  }
  return ending;
}

}  // namespace reef::test
