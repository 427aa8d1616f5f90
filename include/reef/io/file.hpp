#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>

namespace reef::inline v0::io {

namespace detail {

[[noreturn]] inline void throw_open_error(const std::filesystem::path& path, int code) {
  throw_file_error("open", path, code,
                   code == ENOENT ? "check the path; relative ones start at the working directory."
                                  : "make it readable for this user.");
}

/// A regular file, open for reading, and its size. Throws FileError for anything else.
inline std::pair<Descriptor, Bytes> open_regular(const std::filesystem::path& path,
                                                 std::string_view verb) {
  // Nonblocking, or a pipe of that name would be waited for before it can be refused.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw_open_error(path, errno);
  struct ::stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw_file_error("look at", path, errno, "check the file system.");
  }
  if (!S_ISREG(status.st_mode)) {
    throw_file_error(verb, path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL, "name a regular file.");
  }
  return {std::move(file), static_cast<Bytes>(status.st_size)};
}

}  // namespace detail

/// Whether a name is one of a file in the folder of who names it, and of no other.
[[nodiscard]] inline bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

/// A file open for reading at any place. Several threads may read at once.
///
/// The size is that at opening; a file that shrinks later is an error of the read that notices, not
/// a signal.
class File {
public:
  explicit File(std::filesystem::path path) : path_(std::move(path)) {
    std::tie(file_, size_) = detail::open_regular(path_, "read");
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] Bytes size() const { return size_; }

  /// Fills `to` from byte `offset` on. Throws FileError if the file ends before.
  void read(Bytes offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ::ssize_t got =
          ::pread(file_.get(), to.data(), to.size(), static_cast<::off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) detail::throw_file_error("read", path_, errno, "check the disk.");
      if (got == 0) {
        throw FileError("reef::io: '", path_.string(), "' ends at byte ", offset, ", ", to.size(),
                        " bytes early.\n  fix: it was cut off; copy it again.");
      }
      offset += static_cast<Bytes>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

private:
  std::filesystem::path path_;
  detail::Descriptor file_;
  Bytes size_ = 0;
};

/// All bytes of a file, or of a pipe, of at most `limit` bytes. Throws FileError, DecodeError
/// beyond the limit.
inline std::string read_file(const std::filesystem::path& path, Bytes limit) {
  const detail::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) detail::throw_open_error(path, errno);
  std::string bytes;
  std::size_t size = 0;
  for (;;) {
    if (size == bytes.size()) bytes.resize(size + size / 2 + (std::size_t{1} << 16));
    const ::ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) detail::throw_file_error("read", path, errno, "name a file that can be read.");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    if (size > limit) {
      throw DecodeError("reef::io: '", path.string(), "' has more than the limit of ",
                        format_bytes(limit), ".\n  fix: check that it is the file you meant.");
    }
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace reef::inline v0::io
