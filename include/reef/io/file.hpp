#pragma once

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

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

/// Opens a regular file for reading; returns its descriptor and its size. Throws FileError if the
/// path is not a regular file; `fix`, if it is not empty, is the fix in the error for a missing file.
std::pair<Descriptor, Bytes> open_regular(const std::filesystem::path& path, std::string_view verb,
                                          std::string_view fix = {});

}  // namespace detail

/// Returns true if a name is a plain file name, without a folder, so that a file can name only files beside itself by
/// it.
[[nodiscard]] bool is_plain_name(std::string_view name);

/// A file open for reading at any offset. Several threads may read at once.
///
/// size() is the size at opening. If the file shrinks later, the read that
/// reaches beyond its end throws; no signal is raised, unlike with MappedFile.
///
/// \code
/// const io::File file("tokens.bin");
/// std::vector<std::uint16_t> tokens(512);
/// file.read(1024, std::as_writable_bytes(std::span(tokens)));
/// \endcode
class File {
public:
  /// Opens the file. `fix` is the fix in errors about a file that is missing, not regular or cut off;
  /// give one if the file is part of something that is repaired as a whole, such as a checkpoint.
  explicit File(std::filesystem::path path, std::string_view fix = {}) : path_(std::move(path)), fix_(fix) {
    std::tie(file_, size_) = detail::open_regular(path_, "read", fix_);
  }

  [[nodiscard]] const std::filesystem::path& path() const& { return path_; }
  [[nodiscard]] std::filesystem::path path() const&& { return path_; }
  [[nodiscard]] Bytes size() const { return size_; }

  /// Fills `to` with the bytes from `offset` on. Throws FileError if the file ends before `to` is full.
  void read(Bytes offset, std::span<std::byte> to) const;

private:
  std::filesystem::path path_;
  std::string fix_;
  detail::Descriptor file_;
  Bytes size_ = 0;
};

/// Returns the encoding whose byte order mark begins a text, such as "UTF-8"; empty if the text begins with none.
[[nodiscard]] std::string_view byte_order_mark(std::string_view text);

/// Reads all bytes of a file or a pipe, at most `limit`. Throws FileError
/// if it cannot be read, DecodeError if it is longer than the limit.
std::string read_file(const std::filesystem::path& path, Bytes limit);

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/file.ipp>
#endif
