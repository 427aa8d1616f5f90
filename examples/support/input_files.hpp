#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>

#include <reef/core/text.hpp>

// Files that each rank of a job reads for itself, some of them more than once.

namespace reef_examples {

/// Why a name is of no file that ranks can read; empty where it is of one. `or_folder`: a folder is one too; `or_none`:
/// nothing needs to be there.
inline std::string not_readable(const std::string& name, bool or_folder, bool or_none) {
  if (name.empty()) return "'' is no path; name one, or leave the option out";
  struct ::stat status {};
  if (::stat(name.c_str(), &status) != 0) {
    if (or_none && errno == ENOENT) return {};
    if (errno == ENOENT || errno == ENOTDIR) return reef::concat("File does not exist: ", name);
    return reef::concat("'", name, "' cannot be read: ", std::generic_category().message(errno));
  }
  if (S_ISREG(status.st_mode) || (or_folder && S_ISDIR(status.st_mode))) return {};
  const char* const kind = S_ISDIR(status.st_mode)    ? "a folder"
                           : S_ISFIFO(status.st_mode) ? "a pipe"
                           : S_ISSOCK(status.st_mode) ? "a socket"
                                                      : "a device";
  return reef::concat(
      "'", name, "' is ", kind,
      ", no regular file.\n  why: every rank reads it for itself, and may do so twice.\n",
      "  fix: name a file",
      S_ISDIR(status.st_mode) ? "" : "; what a pipe gives, write to one first");
}

/// Refuses an option's text unless it names a regular file that is there.
inline CLI::Validator readable_file() {
  return {[](const std::string& name) { return not_readable(name, false, false); }, "FILE"};
}

/// The same, but a folder will do.
inline CLI::Validator readable_file_or_folder() {
  return {[](const std::string& name) { return not_readable(name, true, false); },
          "PATH(existing)"};
}

/// The same, but nothing needs to be there yet.
inline CLI::Validator readable_file_if_there() {
  return {[](const std::string& name) { return not_readable(name, false, true); }, "FILE"};
}

}  // namespace reef_examples
