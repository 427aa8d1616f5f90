#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <reef/core/inline.hpp>
#include <reef/io/file.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

/// The fix that is given, or else that of the error.
inline std::string_view fix_or(std::string_view fix, std::string_view own) { return fix.empty() ? own : fix; }

[[noreturn]] inline void throw_open_error(const std::filesystem::path& path, int code, std::string_view fix) {
  throw_file_error("open", path, code,
                   code == ENOENT ? fix_or(fix, "check the path; relative ones start at the working directory.")
                                  : "make it readable for this user.");
}

REEF_INLINE std::pair<Descriptor, Bytes> open_regular(const std::filesystem::path& path,
                                                      std::string_view verb, std::string_view fix) {
  // Nonblocking, or a pipe of that name would be waited for before it can be refused.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw_open_error(path, errno, fix);
  struct ::stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw_file_error("look at", path, errno, "check the file system.");
  }
  if (!S_ISREG(status.st_mode)) {
    throw_file_error(verb, path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL, fix_or(fix, "name a regular file."));
  }
  return {std::move(file), static_cast<Bytes>(status.st_size)};
}

}  // namespace detail

REEF_INLINE bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

REEF_INLINE void File::read(Bytes offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ::ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<::off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) detail::throw_file_error("read", path_, errno, "check the disk.");
    if (got == 0) {
      throw FileError("reef::io: '", path_.string(), "' ends at byte ", offset, ", ", to.size(),
                      " bytes early.\n  fix: ", detail::fix_or(fix_, "it was cut off; copy it again."));
    }
    offset += static_cast<Bytes>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

REEF_INLINE std::string_view byte_order_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return "UTF-8";
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ? "UTF-16" : "";
}

REEF_INLINE std::string read_file(const std::filesystem::path& path, Bytes limit) {
  const detail::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) detail::throw_open_error(path, errno, {});
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

}  // namespace io
}  // namespace v0
}  // namespace reef
