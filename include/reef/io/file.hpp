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

/// A regular file, open for reading, and its size. Throws FileError for anything else, with
/// `fix`, if one is given, where there is no such file.
std::pair<Descriptor, Bytes> open_regular(const std::filesystem::path& path, std::string_view verb,
                                          std::string_view fix = {});

}  // namespace detail

/// Whether a name is a file name alone, without a folder: it names a file beside the one that it is read from.
[[nodiscard]] bool is_plain_name(std::string_view name);

/// A file open for reading at any place. Several threads may read at once.
///
/// The size is that at opening; a file that shrinks later is an error of the read that notices, not
/// a signal.
///
/// \code
/// const io::File file("tokens.bin");
/// std::vector<std::uint16_t> tokens(512);
/// file.read(1024, std::as_writable_bytes(std::span(tokens)));
/// \endcode
class File {
public:
  /// `fix`: what errors recommend for one that is missing, no file or cut off, where it is mended with all that it is a part of.
  explicit File(std::filesystem::path path, std::string_view fix = {}) : path_(std::move(path)), fix_(fix) {
    std::tie(file_, size_) = detail::open_regular(path_, "read", fix_);
  }

  [[nodiscard]] const std::filesystem::path& path() const& { return path_; }
  [[nodiscard]] std::filesystem::path path() const&& { return path_; }
  [[nodiscard]] Bytes size() const { return size_; }

  /// Fills `to` from byte `offset` on. Throws FileError if the file ends before.
  void read(Bytes offset, std::span<std::byte> to) const;

private:
  std::filesystem::path path_;
  std::string fix_;
  detail::Descriptor file_;
  Bytes size_ = 0;
};

/// The encoding whose byte order mark begins a text, such as "UTF-8"; empty where none does.
[[nodiscard]] std::string_view byte_order_mark(std::string_view text);

/// All bytes of a file, or of a pipe, of at most `limit` bytes. Throws FileError, DecodeError
/// beyond the limit.
std::string read_file(const std::filesystem::path& path, Bytes limit);

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/file.ipp>
#endif
