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

/// Returns true if other machines may see the files of this path: its file system is not of a kind known as local.
bool is_shared_file_system(const std::filesystem::path& path);

namespace detail {

/// Returns true if the server of a device keeps the locks on it, so that they hold for all machines, according to the
/// text `mounts` of /proc/self/mountinfo: on NFS unless mounted with local locks, on Lustre if mounted with flock.
bool locks_are_the_servers(std::string_view mounts, std::uint64_t major, std::uint64_t minor);

}  // namespace detail

/// A lock on a directory that one job writes to: any other job that locks it gets an error that names the holder.
///
/// | file   | DIRECTORY/reef.lock, which names the holder: machine, process, time, job. Removed at the end  |
/// | lock   | flock: it ends with the holder's process, however that ends. A lock file left by a dead       |
/// |        | process of this machine, or on a local file system of any machine, is taken over              |
/// | shared | on NFS the server keeps the lock, and other machines see it, unless the mount is local        |
/// |        | (local_lock, nolock); likewise on Lustre mounted with flock. On other shared file systems the |
/// |        | file is the lock: another machine holds it until somebody removes the file                    |
/// | others | a file of this name that is not a job's lock is refused and stays: a link, a file with        |
/// |        | several names or other content, a pipe                                                        |
/// | errors | FileError with the holder and the fix; without flock the content of the file alone decides    |
///
/// \code
/// const io::DirectoryLock lock("run");  // until the end of scope no other job can have it
/// \endcode
class DirectoryLock {
public:
  static constexpr std::string_view file_name = "reef.lock";

  /// Takes the lock. Waits up to `patience` seconds for its holder to end: a job whose launcher was killed takes a
  /// moment.
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

  /// Opens an existing lock file or creates one; follows no link, waits for no pipe, writes to no other file.
  void open();

  /// Throws FileError unless the file `found` is a regular file with exactly one name (hard link).
  void require_own(const struct ::stat& found);

  /// Returns true if a text begins as write() writes it, or is what a crash or a full disk left of such a text.
  static bool begins_as_a_lock(std::string_view text);

  [[noreturn]] void refuse_foreign(const std::string& what);

  /// Returns true if another job holds the lock. `taken`: flock succeeded; `holder`: the content of the file.
  [[nodiscard]] bool is_held_by(const Json& holder, bool taken) const;

  void release();

  /// Returns true if the path of the lock still names the file that is open.
  [[nodiscard]] bool is_named() const;

  /// Returns true if flock on the file holds for all machines that can write to the directory.
  [[nodiscard]] bool locks_are_seen() const;

  /// Reads the holder of the lock, a JSON object, from the lock file; returns null if the file names none.
  [[nodiscard]] Json read() const;

  void write();

  static std::string text_of(const Json& holder, const char* key);
  static std::int64_t process_of(const Json& holder);

  /// Returns true if the holder, a process of this machine, is alive.
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
