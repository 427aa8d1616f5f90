#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/io/stored_tensor.hpp>

namespace reef {
inline namespace v0 {
namespace io {

/// A tensor in host memory to be written, and its name in the file.
struct NamedView {
  std::string name;
  AnyView view;
};

/// A tensor that is not in memory as a whole: `bytes(offset, room)` returns its next room.size()
/// bytes from byte `offset` on, in `room` or in other memory that stays valid until the next call.
struct NamedSource {
  std::string name;
  Shape shape;
  Element element = Element::float32;
  std::function<std::span<const std::byte>(Bytes offset, std::span<std::byte> room)> bytes;

  [[nodiscard]] Bytes size() const { return static_cast<Bytes>(shape.size()) * size_of(element); }
};

namespace detail {

/// Returns the tensors in the order in which they are written: by descending element size, then by name. Throws
/// OptionError, which names `path`, for a name that occurs twice, is "__metadata__", or is not UTF-8.
std::vector<const NamedSource*> in_order(const std::filesystem::path& path,
                                         std::span<const NamedSource> tensors);

}  // namespace detail

/// Writes tensors to a safetensors file, atomically, and returns the file's size and checksums.
///
/// Tensors are stored by descending element size, then by name, so that equal tensors give equal
/// files in whatever order they are passed, and each tensor is aligned to its element size.
///
/// | errors | OptionError for a name that occurs twice, is "__metadata__" or is not UTF-8; |
/// |        | FileError as AtomicFile. An older file of that name is unchanged             |
/// | memory | one piece (piece_bytes) and the header                                       |
Shard stream_safetensors(const std::filesystem::path& path, std::span<const NamedSource> tensors,
                         const Metadata& metadata = {});

/// Writes tensors in memory to a safetensors file, as stream_safetensors does.
///
/// \code
/// // given: std::vector<float>& weights
/// const std::vector<io::NamedView> tensors{
///     {"ln_f.weight", AnyView(weights.data(), {768}, Element::float32)}};
/// io::write_safetensors("model.safetensors", tensors, {{"format", "pt"}});
/// \endcode
Shard write_safetensors(const std::filesystem::path& path, std::span<const NamedView> tensors,
                        const Metadata& metadata = {});

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/safetensors_writer.ipp>
#endif
