#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/stored_tensor.hpp>

namespace reef {
inline namespace v0 {
namespace io {

/// A safetensors file open for reading. Every number in its header is checked before it is used.
///
/// | accepts | exactly the format: a header of at most 100 MB that begins with "{",                       |
/// |         | dtypes of 1, 2, 4 or 8 bytes, for each tensor its three members and no others, tensors     |
/// |         | that fill the data without a gap or an overlap                                             |
/// | memory  | the header and its parsed tree, up to 64 times as long; tensors are read directly into the |
/// |         | caller's memory                                                                            |
/// | errors  | FileError if it cannot be read; DecodeError with file and tensor for anything else         |
///
/// Source: huggingface/safetensors, README.md (format) and tensor.rs (validation).
///
/// \code
/// const io::SafetensorsFile file("model.safetensors");
/// std::vector<float> weights(768);
/// file.read("ln_f.weight", AnyView(weights.data(), {768}, Element::float32));
/// \endcode
class SafetensorsFile {
public:
  static constexpr Bytes max_header_bytes = 100'000'000;

  /// Opens the file and reads its header. `fix` is the fix in errors about a file that is missing or
  /// damaged; give one if the file is part of something that is repaired as a whole, such as a checkpoint.
  explicit SafetensorsFile(const std::filesystem::path& path, std::string_view fix = {});

  [[nodiscard]] const std::filesystem::path& path() const& { return file_.path(); }
  [[nodiscard]] std::filesystem::path path() const&& { return file_.path(); }
  [[nodiscard]] Bytes size() const { return file_.size(); }
  [[nodiscard]] const Metadata& metadata() const& { return metadata_; }
  [[nodiscard]] Metadata metadata() const&& { return metadata_; }
  /// Returns the CRC-32C of all bytes before the tensors' data.
  [[nodiscard]] std::uint32_t header_crc32c() const { return header_crc32c_; }
  /// Returns the tensors in the order of their data in the file.
  [[nodiscard]] std::span<const StoredTensor> tensors() const& { return tensors_; }
  [[nodiscard]] std::vector<StoredTensor> tensors() const&& { return tensors_; }

  /// Finds the tensor of this name; returns null if there is none.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const&;
  void find(std::string_view) const&& = delete;

  /// Returns the tensor of this name. Throws DecodeError if there is none.
  [[nodiscard]] const StoredTensor& at(std::string_view name) const&;
  [[nodiscard]] StoredTensor at(std::string_view name) const&& { return at(name); }

  /// Returns the tensor of this name. Throws DecodeError unless it has this shape and element type.
  [[nodiscard]] const StoredTensor& at(std::string_view name, const Shape& shape, Element element) const&;
  [[nodiscard]] StoredTensor at(std::string_view name, const Shape& shape, Element element) const&& {
    return at(name, shape, element);
  }

  /// Reads a tensor's bytes; `to` must have exactly the tensor's size.
  void read(const StoredTensor& tensor, std::span<std::byte> to) const;

  /// Reads the part of a tensor that begins at its byte `offset` and is as long as `to`.
  void read(const StoredTensor& tensor, Bytes offset, std::span<std::byte> to) const;

  /// Reads a tensor into the view, whose element type and shape the tensor must have.
  void read(std::string_view name, const AnyView& to) const;

private:
  [[noreturn]] void refuse(const std::string& why) const;

  void read_header(const Json& header, JsonSource source);

  StoredTensor read_entry(const std::string& name, const Json& entry, JsonSource source);

  std::string fix_;
  File file_;
  Bytes data_ = 0;  // the offset at which the header ends
  std::uint32_t header_crc32c_ = 0;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/safetensors_file.ipp>
#endif
