#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>

namespace reef::inline v0::io {

namespace detail {

[[noreturn]] inline void throw_file_error(std::string_view verb, const std::filesystem::path& path,
                                          int code, std::string_view fix) {
  std::string text = "reef::io: cannot ";
  text.append(verb).append(" '").append(path.string()).append("': ");
  text.append(std::error_code(code, std::generic_category()).message()).append(".\n  fix: ");
  text.append(fix);
  throw FileError(text);
}

/// A file descriptor that closes itself.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      value_ = other.release();
    }
    return *this;
  }

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] explicit operator bool() const { return value_ >= 0; }
  int release() {
    const int value = value_;
    value_ = -1;
    return value;
  }
  /// 0, or the error that closing met: on some file systems a write fails only here.
  int close() {
    const int value = release();
    return value >= 0 && ::close(value) != 0 ? errno : 0;
  }

private:
  int value_ = -1;
};

/// 0, or the error that making a folder's names durable met.
inline int sync_folder(const std::filesystem::path& folder) {
  const Descriptor directory(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return errno;
  // Some network file systems cannot sync a folder and say EINVAL: their names are durable at once
  // or nothing is.
  return ::fsync(directory.get()) != 0 && errno != EINVAL ? errno : 0;
}

/// Opens a file of any kind to write to. A pipe that nobody reads is not waited for, but ENXIO.
inline Descriptor open_to_write(const std::filesystem::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  if (file) ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  return file;
}

/// Throws what open_to_write, or making a file, failed of.
[[noreturn]] inline void throw_write_error(const std::filesystem::path& path, int code) {
  std::error_code ignored;
  if (code == ENXIO && std::filesystem::is_fifo(path, ignored)) {
    throw FileError("reef::io: cannot write to '", path.string(),
                    "': it is a pipe that nobody reads.\n  fix: start who reads it first.");
  }
  const std::filesystem::path folder = path.parent_path();
  if (code == ENOENT && !folder.empty() && !std::filesystem::exists(folder, ignored)) {
    throw_file_error("write to", path, code,
                     concat("create the folder '", folder.string(), "' first."));
  }
  throw_file_error("write to", path, code,
                   "a file in a folder that is there, is writable, and has space left.");
}

}  // namespace detail

/// Makes a folder and those above it that are missing; their names are durable when it returns.
///
/// | cost   | an fsync of the folder above, also where the folder is there already: whoever made |
/// |        | it may have died before its own                                                    |
/// | errors | FileError with the path and the system's reason                                    |
inline void create_folders(const std::filesystem::path& folder) {
  const std::filesystem::path above = folder.parent_path();
  std::error_code ignored;
  if (!above.empty() && !std::filesystem::is_directory(above, ignored)) create_folders(above);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    const int code = errno;
    if (code != EEXIST || !std::filesystem::is_directory(folder, ignored)) {
      detail::throw_file_error("make the folder", folder, code,
                               "the folder above must be writable, and no file have its name.");
    }
  }
  if (const int code = detail::sync_folder(above); code != 0) {
    detail::throw_file_error("make durable the name of", folder, code, "check the disk.");
  }
}

/// A file that appears under its name whole, or not at all.
///
/// Bytes go to a temporary file beside the target; `commit` makes them durable (fsync), renames,
/// and makes the rename durable. A reader sees the old file or the new one, also after a crash.
///
/// | others | what is there and no regular file, such as a pipe or /dev/stdout, is written directly; |
/// |        | a pipe that nobody reads is an error, not waited for                              |
/// | cost   | one fsync of the file and one of its folder, in commit                            |
/// | errors | FileError with the path and the system's reason; the old file is unchanged, and   |
/// |        | the temporary file is removed. Only a failing fsync of the folder comes after the |
/// |        | rename: then the new file stands, but a power cut may still take it back          |
class AtomicFile {
public:
  explicit AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code ignored;
    const auto status = std::filesystem::status(path_, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
      file_ = detail::open_to_write(path_, 0);
      if (!file_) detail::throw_write_error(path_, errno);
      return;
    }
    static std::atomic<unsigned> count{0};
    do {  // in a container numbers of processes come again, and with them what a crash has left
      temporary_ = path_;
      temporary_ += concat(".tmp.", ::getpid(), ".", count.fetch_add(1));
      file_ = detail::Descriptor(
          ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    } while (!file_ && errno == EEXIST);
    if (!file_) {
      const int code = errno;
      temporary_.clear();
      detail::throw_write_error(path_, code);
    }
  }
  ~AtomicFile() { discard(); }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes.
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ::ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        fail("write", errno);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      start_writeback(written);
    }
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Makes the bytes durable and gives them their name. Once; nothing can be written afterwards.
  void commit() {
    if (temporary_.empty()) {
      if (const int code = file_.close(); code != 0) fail("close", code);
      return;
    }
    if (::fsync(file_.get()) != 0) fail("make durable", errno);
    if (const int code = file_.close(); code != 0) fail("close", code);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename to", errno);
    temporary_.clear();
    if (const int code = detail::sync_folder(path_.parent_path()); code != 0) {
      detail::throw_file_error("make durable the name of", path_, code,
                               "check the disk; the file itself is written.");
    }
  }

private:
  // The disk works while the next bytes are made, and commit has less to wait for. A hint: what it does
  // not start, commit does.
  void start_writeback([[maybe_unused]] ::ssize_t written) {
#if defined(__linux__)
    constexpr ::off_t portion = ::off_t{8} << 20;
    written_ += written;
    if (temporary_.empty() || written_ - started_ < portion) return;
    ::sync_file_range(file_.get(), started_, written_ - started_, SYNC_FILE_RANGE_WRITE);
    started_ = written_;
#endif
  }

  void discard() {
    file_.close();
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  }
  [[noreturn]] void fail(std::string_view verb, int code) {
    discard();
    detail::throw_file_error(
        verb, path_, code, "check space and permissions; an older file of that name is unchanged.");
  }

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  detail::Descriptor file_;
  ::off_t written_ = 0;
  ::off_t started_ = 0;  ///< on their way to the disk
};

/// Writes a whole file atomically: AtomicFile in one call.
inline void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}
inline void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace reef::inline v0::io
