#pragma once

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>

#include <reef/core/error.hpp>

#include "wrapped_text.hpp"

namespace reef_examples {

/// Writes `text` to standard output, and throws FileError unless all of it has gone there. `what` it is, for
/// the error: "the answer".
inline void print(std::string_view text, std::string_view what) {
  errno = 0;
  const bool taken = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && taken) return;
  throw reef::FileError(
      "cannot write ", what, " to standard output: ", std::generic_category().message(errno),
      ".\n  fix: a file on a disk with space, a terminal, or a pipe that is read.");
}

/// What CLI11 has to say where it does not go on: help, the version, or what is wrong. Returns the exit status: 0,
/// 1 where it cannot be said, or `refused`. `complain` says what is wrong.
template <class Complain>
int end_parsing(const CLI::App& app, const CLI::ParseError& error, int refused, const Complain& complain) {
  std::ostringstream text;
  std::ostringstream wrong;
  if (app.exit(error, text, wrong) != 0) {
    complain(wrong.str());
    return refused;
  }
  try {
    print(wrapped(text.str()), "what was asked for");
  } catch (const reef::FileError& full) {
    std::cerr << app.get_name() << ": " << full.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace reef_examples
