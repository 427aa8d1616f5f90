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

/// Whether other machines may see what is there: the file system is none of the local kinds.
bool is_shared_file_system(const std::filesystem::path& path);

namespace detail {

/// Of a system's list of mounts (/proc/self/mountinfo): whether a lock on that device is the server's, for all
/// machines. So are NFS's unless they are mounted as local, and Lustre's where they are mounted so.
bool locks_are_the_servers(std::string_view mounts, std::uint64_t major, std::uint64_t minor);

}  // namespace detail

/// A directory that one job writes to: another one that wants it is refused, and told who has it.
///
/// | file   | DIRECTORY/reef.lock, with its holder: machine, process, since when, job. Gone at the end     |
/// | lock   | flock: it ends with its process, however that ends. The file of a dead process of this       |
/// |        | machine is taken over; on a local file system, that of any machine                           |
/// | shared | on NFS it is a lock of the server's, which other machines see, unless it is mounted as local |
/// |        | (local_lock, nolock); on Lustre where it is mounted with flock. Elsewhere the file counts:   |
/// |        | a holder of another machine is one until somebody removes it                                 |
/// | others | what is no lock that a job wrote is refused and stays: a link, a file with several names, one |
/// |        | that holds something else, a pipe                                                             |
/// | errors | FileError with the holder and what to do; a file system without flock asks the file alone    |
///
/// \code
/// const io::DirectoryLock lock("run");  // until the end of scope no other job can have it
/// \endcode
class DirectoryLock {
public:
  static constexpr std::string_view file_name = "reef.lock";

  /// Waits for so long for a holder to end: one whose launcher was killed takes a moment.
  explicit DirectoryLock(const std::filesystem::path& directory, Seconds patience = 0)
      : path_(directory / file_name) {
    acquire(patience);
  }
  ~DirectoryLock() { release(); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Takes it again if its file was removed or replaced, as where the directory was made anew.
  void renew();

private:
  void acquire(Seconds patience);

  /// A file of this name that a job wrote, or a new one; nothing else is followed, waited for or written to.
  void open();

  /// As far as its place and its kind tell.
  void require_own(const struct ::stat& found);

  /// What write() writes, or as much of it as a crash or a full disk has left.
  static bool begins_as_a_lock(std::string_view text);

  [[noreturn]] void refuse_foreign(const std::string& what);

  /// By what the file says, where a lock does not say it.
  [[nodiscard]] bool is_held_by(const Json& holder, bool taken) const;

  void release();

  /// The file that is open here is the one of that name.
  [[nodiscard]] bool is_named() const;

  /// By whoever else can write here.
  [[nodiscard]] bool locks_are_seen() const;

  /// Who wrote it; null if nobody can be read there.
  [[nodiscard]] Json read() const;

  void write();

  static std::string text_of(const Json& holder, const char* key);
  static std::int64_t process_of(const Json& holder);

  /// Of this machine.
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
