#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "temporary_folder.hpp"

namespace reef::test {

/// How a command ended, and what it printed, each stream by itself.
struct Ending {
  int status = 0;      ///< of its exit; 128 when a signal ended it
  std::string output;  ///< on standard output
  std::string errors;  ///< on standard error; of run_ranks, that of one rank after the other
  std::vector<std::string> errors_of;  ///< of run_ranks: on standard error, by rank
  std::string errors_of_launcher;      ///< of run_ranks: on standard error, by none of the ranks

  friend std::ostream& operator<<(std::ostream& out, const Ending& one) {
    return out << "status " << one.status << "\n--- standard output:\n"
               << one.output << "--- standard error:\n"
               << one.errors << one.errors_of_launcher << "---\n";
  }
};

/// Returns how many lines begin with this.
inline int lines_that_begin_with(const std::string& begin, const std::string& text) {
  int count = 0;
  for (std::size_t at = 0; at != std::string::npos; at = text.find('\n', at)) {
    at += text[at] == '\n' ? 1 : 0;
    count += text.compare(at, begin.size(), begin) == 0 ? 1 : 0;
  }
  return count;
}

/// The seconds after which a command counts as one that hangs: far more than any takes on a busy machine.
constexpr int limit_of_commands = 180;

/// Runs a shell command. One that hangs, for `limit` seconds, is ended and fails the test.
inline Ending run_command(const std::string& command, int limit = limit_of_commands) {
  const TemporaryFolder folder;
  const auto text_of = [&](const char* name) {
    std::ifstream file(folder / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string limited = "{ timeout -k 2 " + std::to_string(limit) + " " + command +
                              "\n} > '" + (folder / "output").string() + "' 2> '" +
                              (folder / "errors").string() + "'";
  const int status = std::system(limited.c_str());
  Ending ending;
  ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  ending.output = text_of("output");
  ending.errors = text_of("errors");
  constexpr int timed_out = 124;  // timeout's own
  if (status == -1 || ending.status == timed_out) {
    ADD_FAILURE() << (status == -1 ? "cannot run: "
                                   : "not at an end after " + std::to_string(limit) + " s: ")
                  << command << '\n'
                  << ending;
  }
  return ending;
}

/// Files of their own for what the ranks of a job write on standard error. Through the launcher lines come cut, mixed with
/// those of other ranks, or not at all where it ends the job.
class RankErrors {
public:
  RankErrors() {
    // The number is Open MPI's, or Hydra's.
    write_file(script(),
               "exec \"$@\" 2> '" + file_of("") + "'${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n");
  }

  /// A rank is started as `sh script() PROGRAM OPTIONS...`, and is that program from then on.
  [[nodiscard]] std::string script() const { return (folder_ / "rank").string(); }

  /// Returns what a rank has written so far, in whole lines.
  [[nodiscard]] std::string of(int rank) const {
    std::ifstream file(file_of(std::to_string(rank)), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (!text.empty() && text.back() != '\n') text += '\n';
    return text;
  }

private:
  [[nodiscard]] std::string file_of(const std::string& rank) const {
    return (folder_ / ("errors." + rank)).string();
  }

  TemporaryFolder folder_;
};

/// What some ranks of a job run.
struct Ranks {
  int count = 0;
  std::string program;  ///< with its options, as a shell reads it
};

/// Runs a job under a launcher, which is `mpiexec` with what it needs.
inline Ending run_ranks(const std::string& launcher, const std::vector<Ranks>& job,
                        int limit = limit_of_commands) {
  const RankErrors errors;
  std::string command = launcher;
  int count = 0;
  for (const Ranks& part : job) {
    command += (count == 0 ? " -n " : " : -n ") + std::to_string(part.count) + " sh '" +
               errors.script() + "' " + part.program;
    count += part.count;
  }
  Ending ending = run_command(command, limit);
  ending.errors_of_launcher.swap(ending.errors);
  for (int rank = 0; rank < count; ++rank) {
    ending.errors_of.push_back(errors.of(rank));
    ending.errors += ending.errors_of.back();
  }
  return ending;
}

/// Runs a job whose ranks all run the same.
inline Ending run_ranks(const std::string& launcher, int ranks, const std::string& program,
                        int limit = limit_of_commands) {
  return run_ranks(launcher, {{ranks, program}}, limit);
}

}  // namespace reef::test
