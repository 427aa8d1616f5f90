#pragma once

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

namespace reef::test {

/// How a command ended: its exit status (128 when a signal ended it), what it printed on both
/// streams, and how long it took.
struct Ending {
  int status = 0;
  double seconds = 0;
  std::string output;
};

/// Runs a shell command; after `limit` seconds it is ended.
inline Ending run_command(const std::string& command, int limit = 60) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string limited = "timeout -k 2 " + std::to_string(limit) + " " + command + " 2>&1";
  Ending ending;
  std::FILE* const job = popen(limited.c_str(), "r");
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
  ending.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return ending;
}

}  // namespace reef::test
