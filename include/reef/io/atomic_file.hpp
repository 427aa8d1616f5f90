#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <reef/core/error.hpp>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

[[noreturn]] void throw_file_error(std::string_view verb, const std::filesystem::path& path,
                                   int code, std::string_view fix);

/// A file descriptor that closes itself.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] explicit operator bool() const { return value_ >= 0; }
  int release();
  /// Closes the file. Returns 0 or the error number: on some file systems a failed write is reported only here.
  int close();

private:
  int value_ = -1;
};

/// Makes the names in a folder durable. Returns 0 or the error number.
int sync_folder(const std::filesystem::path& folder);

/// Opens a file of any kind for writing. A pipe without a reader is not waited for: errno is ENXIO.
Descriptor open_to_write(const std::filesystem::path& path, int flags);

/// Throws FileError for the error number `code` of open_to_write, or of making a file.
[[noreturn]] void throw_write_error(const std::filesystem::path& path, int code);

}  // namespace detail

/// Makes a folder and those above it that are missing; their names are durable when it returns.
///
/// | cost   | an fsync of the folder above, even where the folder exists: the process that made  |
/// |        | it may have ended before its own fsync                                             |
/// | errors | FileError with the path and the system's reason                                    |
void create_folders(const std::filesystem::path& folder);

/// A file that appears under its name complete, or not at all.
///
/// Bytes go to a temporary file beside the target; `commit` makes them durable (fsync), renames,
/// and makes the rename durable. A reader sees the old file or the new one, also after a crash.
///
/// | others | an existing target that is no regular file (a pipe, /dev/stdout) is written directly; |
/// |        | a pipe without a reader is an error, and not waited for                           |
/// | cost   | one fsync of the file and one of its folder, in commit                            |
/// | errors | FileError with the path and the system's reason; the old file is unchanged, and   |
/// |        | the temporary file is removed. Only a failing fsync of the folder comes after the |
/// |        | rename: then the new file stands, but a power cut may still take it back          |
///
/// \code
/// // given: std::span<const std::byte> weights
/// io::AtomicFile file("weights.bin");
/// file.write("a header\n");
/// file.write(weights);
/// file.commit();  // until here the old file stands
/// \endcode
class AtomicFile {
public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile() { discard(); }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes to the temporary file.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Makes the bytes durable and gives the file its name. Call it once; nothing can be written afterwards.
  void commit();

private:
  // Asks the system to begin writing to the disk, so that commit has less to wait for. A hint alone: commit
  // writes the rest.
  void start_writeback([[maybe_unused]] ::ssize_t written);

  void discard();
  [[noreturn]] void fail(std::string_view verb, int code);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  detail::Descriptor file_;
  ::off_t written_ = 0;
  ::off_t started_ = 0;  ///< the bytes whose writing to the disk has been asked for
};

/// Writes a whole file atomically: AtomicFile in one call.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
inline void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/atomic_file.ipp>
#endif
