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

/// An owner of a file descriptor, which its destructor closes.
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

/// Makes the file names in a folder durable by fsync. Returns 0 or the error number.
int sync_folder(const std::filesystem::path& folder);

/// Opens a file of any kind for writing. Does not wait for a pipe that has no reader: errno is then ENXIO.
Descriptor open_to_write(const std::filesystem::path& path, int flags);

/// Throws FileError for the error number `code` of open_to_write, or of the creation of a file.
[[noreturn]] void throw_write_error(const std::filesystem::path& path, int code);

}  // namespace detail

/// Creates a folder and the missing folders above it; their names are durable when it returns.
///
/// | cost   | an fsync of the folder above, even where the folder exists: the process that |
/// |        | created it may have ended before its own fsync                               |
/// | errors | FileError with the path and the system's reason                              |
void create_folders(const std::filesystem::path& folder);

/// A file that appears under its name when it is complete, or not at all.
///
/// Bytes go to a temporary file beside the target; `commit` makes them durable (fsync), renames that file
/// to the target, and makes the rename durable. A reader sees the old or the new file, also after a crash.
///
/// | others | an existing target that is not a regular file (a pipe, /dev/stdout) is written directly;   |
/// |        | a pipe without a reader is an error at once, without a wait for a reader                   |
/// | cost   | one fsync of the file and one of its folder, in commit                                     |
/// | errors | FileError with the path and the system's reason; the old file is unchanged, and            |
/// |        | the temporary file is removed. Only a failure of the fsync of the folder is later than the |
/// |        | rename: then the file is the new one, but a power failure may restore the old one          |
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

  /// Appends bytes to the temporary file, which commit() renames to the target.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Makes the bytes durable and renames the file to its name. Call it once; nothing can be written afterwards.
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
  ::off_t started_ = 0;  ///< number of bytes that the system was asked to begin writing to the disk
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
