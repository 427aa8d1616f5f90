#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/file.hpp>
#include <reef/io/mapped_file.hpp>

namespace reef {
inline namespace v0 {
namespace io {

REEF_INLINE MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
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

REEF_INLINE MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    opened_ = other.opened_;
  }
  return *this;
}

REEF_INLINE std::string MappedFile::change() const {
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

REEF_INLINE void MappedFile::unmap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
}

}  // namespace io
}  // namespace v0
}  // namespace reef
