#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>

// What cannot be written is found before the work whose answer it was to hold.

namespace reef_examples {

/// Whether a name ends in no file's: in "/", "." or "..".
inline bool names_a_folder(const std::filesystem::path& path) {
  const std::filesystem::path name = path.filename();
  return name.empty() || name == "." || name == "..";
}

/// Throws FileError where nothing can be written for a reason that a person would not look for in an error of the system:
/// a folder in its place, or none to be in.
inline void require_place(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const auto refuse = [&](const std::string& why, const char* fix) {
    throw reef::FileError("cannot write '", path, "': ", why, ".\n  fix: ", fix);
  };
  if (fs::is_directory(path, none)) refuse("it is a folder", "name a file in it.");
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, none)) {
    if (fs::exists(folder, none))
      refuse(reef::concat("'", folder.string(), "' is no folder"), "name a file in one.");
    refuse(reef::concat("the folder '", folder.string(), "' does not exist"),
           "create it, or name a file in another.");
  }
  if (names_a_folder(path)) refuse("it is the name of a folder", "name a file in it.");
}

/// Throws FileError where nothing can be written to this file. It leaves nothing there, and opens no pipe: who reads one
/// would see its end.
inline void require_writable_file(const std::string& path) {
  require_place(path);
  std::error_code unknown;  // of a folder that may not be searched: the probe says why
  const auto found = std::filesystem::status(path, unknown);
  if (!std::filesystem::exists(found) || std::filesystem::is_regular_file(found)) {
    const reef::io::AtomicFile probe(path);
    return;
  }
  if (::access(path.c_str(), W_OK) != 0) reef::io::detail::throw_write_error(path, errno);
}

/// Throws FileError where so: also for a disk, or a device, that takes not a byte.
inline void require_room_in_file(const std::string& path) {
  require_writable_file(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  struct ::stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  const bool is_full_device =
      is_there && S_ISCHR(status.st_mode) && status.st_rdev == ::makedev(1, 7);
  struct ::statvfs disk {};
  const bool keeps_bytes = !is_there || S_ISREG(status.st_mode);
  const bool is_full_disk = keeps_bytes &&
                            ::statvfs(folder.empty() ? "." : folder.c_str(), &disk) == 0 &&
                            disk.f_blocks > 0 && disk.f_bavail == 0;
  if (is_full_device || is_full_disk) reef::io::detail::throw_write_error(path, ENOSPC);
}

/// Throws FileError unless files can be written into a directory, which may be there later: then the nearest that is
/// there takes some.
inline void require_writable_folder(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code none;
  fs::path there = fs::absolute(directory);
  while (!fs::exists(there, none) && there.has_relative_path()) there = there.parent_path();
  const auto refuse = [&](const char* why) {
    throw reef::FileError("cannot write to '", directory, "': ", there.string(), why,
                          ".\n  fix: a directory that you may write to.");
  };
  if (!fs::is_directory(there, none)) refuse(" is a file");
  try {
    const reef::io::AtomicFile probe(there / "probe");
  } catch (const reef::Error&) {
    refuse(" takes no files of yours");
  }
}

}  // namespace reef_examples
