#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/log/detail/own_process.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE std::filesystem::path find_program(const std::string& program, std::string_view who, std::string_view fix) {
  const auto runs = [](const std::filesystem::path& path) {
    std::error_code ignored;
    return ::access(path.c_str(), X_OK) == 0 && !std::filesystem::is_directory(path, ignored);
  };
  if (program.find('/') != std::string::npos) {
    if (runs(program)) return program;
    throw OptionError(who, ": ", in_quotes(program), " is no program that can be run.\n  fix: ", fix);
  }
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty() && !program.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix((std::min)(folder.size() + 1, folders.size()));
    if (folder.starts_with('/') && runs(std::filesystem::path(folder) / program))
      return std::filesystem::path(folder) / program;
  }
  throw OptionError(who, ": there is no program ", in_quotes(program), " in PATH.\n  fix: ", fix);
}

REEF_INLINE std::uint16_t free_loopback_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::socklen_t size = sizeof at;
  auto* const address = reinterpret_cast<::sockaddr*>(&at);
  const bool bound = ::bind(probe, address, size) == 0 && ::getsockname(probe, address, &size) == 0;
  ::close(probe);
  if (!bound) throw Error("reef::swarm: no port of 127.0.0.1 is free.\n  fix: end some programs that listen.");
  return ntohs(at.sin_port);
}

REEF_INLINE OwnProcess::OwnProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                   std::filesystem::path output)
    : output_(std::move(output)) {
  // What runs between fork and exec must not allocate.
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const ::pid_t parent = ::getpid();
  ::sigset_t none;
  ::sigemptyset(&none);
  id_ = file < 0 ? -1 : ::fork();
  if (id_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(pointers.front(), pointers.data());
    ::_exit(127);
  }
  const int code = errno;
  if (file >= 0) ::close(file);
  if (nothing >= 0) ::close(nothing);
  if (id_ < 0) {
    throw Error("reef::swarm: ", program.string(), " cannot be started, with its output to ", output_.string(), ": ",
                std::strerror(code), ".\n  fix: a folder that this user can write to, with room.");  // NOLINT
  }
}

REEF_INLINE OwnProcess::~OwnProcess() {
  if (has_ended(false)) return;
  ::kill(id_, SIGTERM);
  constexpr int tries = 500;
  for (int i = 0; i < tries && !has_ended(false); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (ended_) return;
  ::kill(id_, SIGKILL);
  (void)has_ended(true);
}

REEF_INLINE bool OwnProcess::has_ended(bool wait) {
  if (ended_) return true;
  ::pid_t got = 0;
  do {
    got = ::waitpid(id_, &status_, wait ? 0 : WNOHANG);
  } while (got < 0 && errno == EINTR);
  ended_ = got != 0;
  return ended_;
}

REEF_INLINE std::string OwnProcess::why_ended() {
  if (!has_ended(false)) return {};
  std::ifstream file(output_, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr std::size_t most = 1000;
  if (text.size() > most) text.erase(0, text.size() - most);
  return concat("has ended with ", WIFSIGNALED(status_) ? "signal " : "status ",
                WIFSIGNALED(status_) ? WTERMSIG(status_) : WEXITSTATUS(status_), ": ", text);
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
