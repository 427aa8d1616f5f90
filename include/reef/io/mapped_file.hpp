#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/file.hpp>

namespace reef::inline v0::io {

/// The bytes of a regular file, read-only, mapped into memory: they are read when they are touched,
/// and all processes of a node share one copy.
///
/// | cost   | opening reads nothing; an untouched byte costs address space alone               |
/// | bounds | the size is that at opening; bytes added later are not seen. A file that shrinks |
/// |        | while it is mapped kills the reader of its lost bytes by SIGBUS, so replace      |
/// |        | files by renaming new ones over them (`AtomicFile`): a map keeps the old one.    |
/// |        | Who reads for long asks change() now and then                                    |
/// | errors | FileError with the path and the system's reason                                  |
class MappedFile {
public:
  explicit MappedFile(std::filesystem::path path) : path_(std::move(path)) {
    const auto [file, size] = detail::open_regular(path_, "map");
    size_ = static_cast<std::size_t>(size);
    if (::fstat(file.get(), &opened_) != 0)
      detail::throw_file_error("look at", path_, errno, "check the file system.");
    if (size_ == 0) return;  // nothing to map: mmap refuses a length of 0
    void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED) {
      detail::throw_file_error("map", path_, errno,
                               "copy it to a local disk, or raise the limit of address space.");
    }
    data_ = static_cast<const std::byte*>(data);
  }
  ~MappedFile() { unmap(); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        opened_(other.opened_) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    if (this != &other) {
      unmap();
      path_ = std::move(other.path_);
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      opened_ = other.opened_;
    }
    return *this;
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] Bytes size() const { return size_; }
  /// Aligned to a page; valid as long as this object or the one that it was moved to lives.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// What somebody has done to the file since it was opened, such as "it was cut from 100 to 40 bytes"; empty
  /// where its bytes are still those that were opened, also under another name. One stat of the path.
  [[nodiscard]] std::string change() const {
    struct ::stat now {};
    if (::stat(path_.c_str(), &now) != 0 || now.st_dev != opened_.st_dev ||
        now.st_ino != opened_.st_ino) {
      return {};
    }
    const auto size = static_cast<Bytes>(now.st_size);
    if (size < size_) return concat("it was cut from ", size_, " to ", size, " bytes");
    if (now.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec)
      return {};
    return "it was written to";
  }

private:
  void unmap() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
    data_ = nullptr;
  }

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  struct ::stat opened_ {};
};

}  // namespace reef::inline v0::io
