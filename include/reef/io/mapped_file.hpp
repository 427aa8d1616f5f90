#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace io {

/// The bytes of a regular file, read-only, mapped into memory: a page is read
/// from the disk at its first access, and all processes of a node share one copy.
///
/// | cost   | opening reads nothing; bytes that are not accessed use only address space             |
/// | bounds | size() is the size at opening; bytes added later are not visible. If the file shrinks |
/// |        | while it is mapped, access to a lost byte ends the process by SIGBUS, so replace      |
/// |        | files by renaming new ones over them (`AtomicFile`): a map keeps the old one.         |
/// |        | A long-lived reader should call change() from time to time                            |
/// | errors | FileError with the path and the system's reason                                       |
///
/// \code
/// const io::MappedFile file("tokens.bin");
/// const std::span<const std::byte> bytes = file.bytes();
/// \endcode
class MappedFile {
public:
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile() { unmap(); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        opened_(other.opened_) {}
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const& { return path_; }
  [[nodiscard]] std::filesystem::path path() const&& { return path_; }
  [[nodiscard]] Bytes size() const { return size_; }
  /// Returns the file's bytes, aligned to a page; valid while this object or its moved-to successor exists.
  [[nodiscard]] std::span<const std::byte> bytes() const& { return {data_, size_}; }
  void bytes() const&& = delete;

  /// Describes a change of the file since it was opened, such as "it was cut from 100 to 40 bytes"; empty
  /// if the file has still the bytes that were mapped, even under another name. Costs one stat of the path.
  [[nodiscard]] std::string change() const;

private:
  void unmap();

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  struct ::stat opened_ {};
};

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/mapped_file.ipp>
#endif
