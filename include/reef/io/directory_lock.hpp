#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace io {

std::string host_name();

/// True if other machines may see the files of this path: the file system is none of the local kinds.
bool is_shared_file_system(const std::filesystem::path& path);

namespace detail {

/// True if, by a system's list of mounts (/proc/self/mountinfo), locks on this device are the server's, which hold for
/// all machines: on NFS unless it is mounted with local locks, on Lustre where it is mounted with flock.
bool locks_are_the_servers(std::string_view mounts, std::uint64_t major, std::uint64_t minor);

}  // namespace detail

/// A lock on a directory that one job writes to: any other job that locks it gets an error that names the holder.
///
/// | file   | DIRECTORY/reef.lock, with its holder: machine, process, time, job. Removed at the end        |
/// | lock   | flock: it ends with its process, however that ends. The file of a dead process of this       |
/// |        | machine is taken over; on a local file system, that of any machine                           |
/// | shared | on NFS the lock is the server's, which other machines see, unless it is mounted as local     |
/// |        | (local_lock, nolock); on Lustre where it is mounted with flock. Elsewhere the file counts:   |
/// |        | another machine holds the lock until somebody removes its file                               |
/// | others | a file of this name that is no lock of a job is refused and stays: a link, a file with        |
/// |        | several names or other content, a pipe                                                        |
/// | errors | FileError with the holder and what to do; a file system without flock asks the file alone    |
///
/// \code
/// const io::DirectoryLock lock("run");  // until the end of scope no other job can have it
/// \endcode
class DirectoryLock {
public:
  static constexpr std::string_view file_name = "reef.lock";

  /// Takes the lock. Waits up to `patience` for a holder to end: a job whose launcher was killed takes a moment.
  explicit DirectoryLock(const std::filesystem::path& directory, Seconds patience = 0)
      : path_(directory / file_name) {
    acquire(patience);
  }
  ~DirectoryLock() { release(); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Takes the lock again if its file was removed or replaced, for instance with its directory.
  void renew();

private:
  void acquire(Seconds patience);

  /// Opens the lock file of a job, or makes a new one; follows no link, waits for no pipe, writes to no other file.
  void open();

  /// Throws FileError unless the file is a regular one with one name.
  void require_own(const struct ::stat& found);

  /// True if a text begins as write() writes it, or is as much of it as a crash or a full disk has left.
  static bool begins_as_a_lock(std::string_view text);

  [[noreturn]] void refuse_foreign(const std::string& what);

  /// True if another job holds the directory: by the file's content, where flock cannot tell.
  [[nodiscard]] bool is_held_by(const Json& holder, bool taken) const;

  void release();

  /// True if the open file is still the one under the lock's name.
  [[nodiscard]] bool is_named() const;

  /// True if all machines that can write to the directory see its locks.
  [[nodiscard]] bool locks_are_seen() const;

  /// Reads the holder from the lock file; null if it names none.
  [[nodiscard]] Json read() const;

  void write();

  static std::string text_of(const Json& holder, const char* key);
  static std::int64_t process_of(const Json& holder);

  /// True if the holder, a process of this machine, is alive.
  static bool is_alive(const Json& holder);

  [[noreturn]] void refuse(const Json& holder);

  std::filesystem::path path_;
  detail::Descriptor file_;
};

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/directory_lock.ipp>
#endif
