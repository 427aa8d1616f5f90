#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

REEF_INLINE void throw_file_error(std::string_view verb, const std::filesystem::path& path,
                                  int code, std::string_view fix) {
  std::string text = "reef::io: cannot ";
  text.append(verb).append(" '").append(path.string()).append("': ");
  text.append(std::error_code(code, std::generic_category()).message()).append(".\n  fix: ");
  text.append(fix);
  throw FileError(text);
}

REEF_INLINE Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    value_ = other.release();
  }
  return *this;
}

REEF_INLINE int Descriptor::release() {
  const int value = value_;
  value_ = -1;
  return value;
}

REEF_INLINE int Descriptor::close() {
  const int value = release();
  return value >= 0 && ::close(value) != 0 ? errno : 0;
}

REEF_INLINE int sync_folder(const std::filesystem::path& folder) {
  const Descriptor directory(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return errno;
  // Some network file systems cannot sync a folder and say EINVAL: their names are durable at once
  // or nothing is.
  return ::fsync(directory.get()) != 0 && errno != EINVAL ? errno : 0;
}

REEF_INLINE Descriptor open_to_write(const std::filesystem::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  if (file) ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  return file;
}

REEF_INLINE void throw_write_error(const std::filesystem::path& path, int code) {
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

REEF_INLINE void create_folders(const std::filesystem::path& folder) {
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

REEF_INLINE AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
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

REEF_INLINE void AtomicFile::write(std::span<const std::byte> bytes) {
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

REEF_INLINE void AtomicFile::commit() {
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

REEF_INLINE void AtomicFile::start_writeback([[maybe_unused]] ::ssize_t written) {
#if defined(__linux__)
  constexpr ::off_t portion = ::off_t{8} << 20;
  written_ += written;
  if (temporary_.empty() || written_ - started_ < portion) return;
  ::sync_file_range(file_.get(), started_, written_ - started_, SYNC_FILE_RANGE_WRITE);
  started_ = written_;
#endif
}

REEF_INLINE void AtomicFile::discard() {
  file_.close();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

REEF_INLINE void AtomicFile::fail(std::string_view verb, int code) {
  discard();
  detail::throw_file_error(verb, path_, code,
                           "check space and permissions; an older file of that name is unchanged.");
}

REEF_INLINE void write_atomically(const std::filesystem::path& path,
                                  std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace io
}  // namespace v0
}  // namespace reef
