#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/json_string.hpp>

namespace reef::inline v0::io {

static_assert(std::endian::native == std::endian::little,
              "reef::io: safetensors files are little-endian, as the memory must be.");

using Metadata = std::map<std::string, std::string>;

/// What goes to or comes from a file at once, so that it is still in a core's cache when its checksum
/// is taken.
inline constexpr Bytes piece_bytes = Bytes{1} << 18;

/// A tensor in a safetensors file.
struct StoredTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  Bytes begin = 0;  // counted from the end of the header
  Bytes end = 0;

  [[nodiscard]] Bytes bytes() const { return end - begin; }
};

/// What a tensor's bytes add up to.
struct TensorChecksum {
  std::string name;
  std::uint32_t crc32c = 0;

  friend bool operator==(const TensorChecksum&, const TensorChecksum&) = default;
};

/// A written safetensors file, and what its parts must add up to when they are read again.
struct Shard {
  std::string file;  // without its folder
  Bytes bytes = 0;
  std::uint32_t header_crc32c = 0;
  std::vector<TensorChecksum> tensors;

  friend bool operator==(const Shard&, const Shard&) = default;
};

namespace detail {

/// Bytes of an element of that dtype; 0 for one that we do not know.
constexpr Bytes dtype_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, Bytes>, 15> known{{{"BOOL", 1},
                                                                      {"U8", 1},
                                                                      {"I8", 1},
                                                                      {"F8_E5M2", 1},
                                                                      {"F8_E4M3", 1},
                                                                      {"I16", 2},
                                                                      {"U16", 2},
                                                                      {"F16", 2},
                                                                      {"BF16", 2},
                                                                      {"I32", 4},
                                                                      {"U32", 4},
                                                                      {"F32", 4},
                                                                      {"F64", 8},
                                                                      {"I64", 8},
                                                                      {"U64", 8}}};
  for (const auto& [name, bytes] : known) {
    if (name == dtype) return bytes;
  }
  return 0;
}

constexpr std::string_view dtype_of(Element element) {
  switch (element) {
    case Element::float32: return "F32";
    case Element::float64: return "F64";
    case Element::int32: return "I32";
    case Element::uint8: return "U8";
    case Element::bfloat16: return "BF16";
  }
  return "?";
}

inline std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  }
  return text + ")";
}

inline std::span<const std::int64_t> extents_of(const Shape& shape,
                                                std::array<std::int64_t, Shape::max_rank>& to) {
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) to[axis] = shape[axis];
  return std::span(to).first(shape.rank());
}

}  // namespace detail

/// A safetensors file open for reading. Trusts no number in it.
///
/// | accepts | what the format says, and no more: a header of at most 100 MB that begins with "{", |
/// |         | dtypes of 1, 2, 4 or 8 bytes, of each tensor its three members and no others, tensors |
/// |         | that fill the data without a gap or an overlap                                      |
/// | memory  | the header and its tree, up to 64 times as long; tensors are read straight into the |
/// |         | caller's memory                                                                     |
/// | errors  | FileError if it cannot be read; DecodeError with file and tensor for anything else |
///
/// Source: huggingface/safetensors, README.md (format) and tensor.rs (validation).
class SafetensorsFile {
public:
  static constexpr Bytes max_header_bytes = 100'000'000;

  explicit SafetensorsFile(const std::filesystem::path& path) : file_(path) {
    std::uint64_t length = 0;
    if (file_.size() < sizeof(length)) refuse("it is too short for a header");
    file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > max_header_bytes) {
      refuse(concat("its header of ", length, " bytes exceeds the limit of 100 MB"));
    }
    if (length > file_.size() - sizeof(length)) {
      refuse(concat("it ends inside its header of ", length, " bytes"));
    }
    data_ = sizeof(length) + length;
    std::string header(static_cast<std::size_t>(length), '\0');
    file_.read(sizeof(length), std::as_writable_bytes(std::span(header)));
    header_crc32c_ =
        crc32c(std::as_bytes(std::span(header)), crc32c(std::as_bytes(std::span(&length, 1))));
    if (!header.starts_with('{')) refuse("its header does not begin with '{'");
    const std::string source = concat("the header of '", path.string(), "'");
    const JsonSource written(source, other_file);
    read_header(parse_json(header, written, {.bytes = max_header_bytes, .depth = 8}), written);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] Bytes size() const { return file_.size(); }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  /// The checksum of all bytes before the data.
  [[nodiscard]] std::uint32_t header_crc32c() const { return header_crc32c_; }
  /// In the order of their data.
  [[nodiscard]] std::span<const StoredTensor> tensors() const { return tensors_; }

  /// The tensor of that name, or null.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }

  /// The tensor of that name. Throws DecodeError where there is none.
  [[nodiscard]] const StoredTensor& at(std::string_view name) const {
    const StoredTensor* tensor = find(name);
    if (tensor == nullptr) {
      refuse(concat("it has no tensor '", name, "'; it has ", tensors_.size(), " others",
                    (tensors_.empty() ? "" : concat(", such as '", tensors_.front().name, "'"))));
    }
    return *tensor;
  }

  /// The same; it must have that shape and element type.
  [[nodiscard]] const StoredTensor& at(std::string_view name, const Shape& shape,
                                       Element element) const {
    const StoredTensor& tensor = at(name);
    std::array<std::int64_t, Shape::max_rank> extents{};
    const auto wanted = detail::extents_of(shape, extents);
    if (tensor.dtype != detail::dtype_of(element) || !std::ranges::equal(tensor.shape, wanted)) {
      refuse(concat("tensor '", tensor.name, "' is ", tensor.dtype, " ",
                    detail::shape_text(tensor.shape), ", where ", detail::dtype_of(element), " ",
                    detail::shape_text(wanted), " is needed"));
    }
    return tensor;
  }

  /// Reads a tensor's bytes; `to` has exactly its size.
  void read(const StoredTensor& tensor, std::span<std::byte> to) const {
    if (to.size() != tensor.bytes()) {
      refuse(concat("tensor '", tensor.name, "' has ", tensor.bytes(), " bytes, not ", to.size()));
    }
    read(tensor, 0, to);
  }

  /// Reads a part of a tensor's bytes, from byte `offset` of it on.
  void read(const StoredTensor& tensor, Bytes offset, std::span<std::byte> to) const {
    if (offset > tensor.bytes() || to.size() > tensor.bytes() - offset) {
      refuse(concat("tensor '", tensor.name, "' has ", tensor.bytes(), " bytes, not ", to.size(),
                    " after ", offset));
    }
    file_.read(data_ + tensor.begin + offset, to);
  }

  /// Reads a tensor that must have the view's element type and shape into the view.
  void read(std::string_view name, const AnyView& to) const {
    read(at(name, to.shape(), to.element()),
         {static_cast<std::byte*>(to.data()), static_cast<std::size_t>(to.bytes())});
  }

private:
  static constexpr std::string_view other_file =
      "check that it is the safetensors file you meant, and copy it again.";

  [[noreturn]] void refuse(const std::string& why) const {
    throw DecodeError("reef::io: cannot read '", file_.path().string(), "': ", why,
                      ".\n  fix: ", other_file);
  }

  void read_header(const Json& header, JsonSource source) {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        if (!entry.is_object()) refuse("its __metadata__ is no object");
        for (const auto& [key, value] : entry.items()) {
          if (!value.is_string()) refuse(concat("its metadata '", key, "' is no string"));
          metadata_[key] = value.get<std::string>();
        }
      } else {
        tensors_.push_back(read_entry(name, entry, source));
      }
    }
    std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    Bytes next = 0;
    for (const StoredTensor& tensor : tensors_) {
      if (tensor.begin != next) {
        refuse(concat("tensor '", tensor.name, "' begins at byte ", tensor.begin,
                      tensor.begin < next ? ", inside" : ", with a gap after", " the one before"));
      }
      next = tensor.end;
    }
    if (next != file_.size() - data_) {
      refuse(concat("its tensors take ", next, " bytes, the file holds ", file_.size() - data_));
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
  }

  StoredTensor read_entry(const std::string& name, const Json& entry, JsonSource source) {
    if (!entry.is_object() || entry.size() != 3) {
      refuse(concat("entry '", name, "' is no object of dtype, shape and data_offsets"));
    }
    StoredTensor tensor;
    tensor.name = name;
    tensor.dtype = require<std::string>(entry, "dtype", source);
    tensor.shape = require<std::vector<std::int64_t>>(entry, "shape", source);
    const auto offsets = require<std::vector<std::uint64_t>>(entry, "data_offsets", source);
    const Bytes width = detail::dtype_bytes(tensor.dtype);
    if (width == 0)
      refuse(concat("tensor '", name, "' has the unknown dtype '", tensor.dtype, "'"));
    Bytes bytes = 1;
    const auto times = [&](Bytes factor) {
      if (factor != 0 && bytes > std::numeric_limits<Bytes>::max() / factor) {
        refuse(concat("tensor '", name, "' is larger than any file"));
      }
      bytes *= factor;
    };
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0) refuse(concat("tensor '", name, "' has a negative extent"));
      times(static_cast<Bytes>(extent));
    }
    times(width);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > file_.size() - data_) {
      refuse(concat("tensor '", name, "' has data_offsets outside the file"));
    }
    if (offsets[1] - offsets[0] != bytes) {
      refuse(concat("tensor '", name, "' of dtype ", tensor.dtype, " and shape ",
                    detail::shape_text(tensor.shape), " takes ", bytes,
                    " bytes, its data_offsets say ", offsets[1] - offsets[0]));
    }
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    return tensor;
  }

  File file_;
  Bytes data_ = 0;  // where the header ends
  std::uint32_t header_crc32c_ = 0;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// A tensor in host memory and the name it gets in a file.
struct NamedView {
  std::string name;
  AnyView view;
};

/// A tensor that is not in memory as a whole: `bytes(offset, room)` says as many bytes of it as `room`
/// has, from byte `offset` on, in `room` or wherever they are until the next call.
struct NamedSource {
  std::string name;
  Shape shape;
  Element element = Element::float32;
  std::function<std::span<const std::byte>(Bytes offset, std::span<std::byte> room)> bytes;

  [[nodiscard]] Bytes size() const { return static_cast<Bytes>(shape.size()) * size_of(element); }
};

/// Writes tensors to a safetensors file, atomically, and returns what they add up to.
///
/// Wider elements come first and then smaller names, so equal tensors give equal files in whatever
/// order they are given, and each tensor is aligned to its element.
///
/// | errors | OptionError for a name that comes twice, is "__metadata__" or is no UTF-8; |
/// |        | FileError as AtomicFile. An older file of that name is unchanged           |
/// | memory | one piece and the header                                                   |
inline Shard stream_safetensors(const std::filesystem::path& path,
                                std::span<const NamedSource> tensors,
                                const Metadata& metadata = {}) {
  const auto check_text = [&](std::string_view text, const char* what) {
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t length = detail::utf8_length(text.substr(i));
      if (length == 0) {
        throw OptionError("reef::io::write_safetensors: '", path.string(), "': the ", what, " ",
                          json_string(text), " is no UTF-8.\n  fix: use UTF-8.");
      }
      i += length;
    }
  };
  std::vector<const NamedSource*> order;
  for (const NamedSource& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const NamedSource* a, const NamedSource* b) {
    const Bytes wide_a = size_of(a->element);
    const Bytes wide_b = size_of(b->element);
    return wide_a != wide_b ? wide_a > wide_b : a->name < b->name;
  });
  std::map<std::string_view, int> names;
  for (const NamedSource* tensor : order) {
    check_text(tensor->name, "name");
    if (tensor->name == "__metadata__" || ++names[tensor->name] > 1) {
      throw OptionError("reef::io::write_safetensors: '", path.string(), "': the name '",
                        tensor->name, "' is taken.\n  fix: give each tensor a name of its own.");
    }
  }

  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      check_text(key, "metadata");
      check_text(value, "metadata");
      if (header.back() != '{') header += ',';
      append_json_string(header, key);
      header += ':';
      append_json_string(header, value);
    }
    header += '}';
  }
  Bytes offset = 0;
  for (const NamedSource* tensor : order) {
    std::array<std::int64_t, Shape::max_rank> extents{};
    if (header.size() > 1) header += ',';
    append_json_string(header, tensor->name);
    header.append(":{\"dtype\":\"").append(detail::dtype_of(tensor->element));
    header += "\",\"shape\":[";
    for (const std::int64_t extent : detail::extents_of(tensor->shape, extents)) {
      if (header.back() != '[') header += ',';
      header += std::to_string(extent);
    }
    header += concat("],\"data_offsets\":[", offset);
    offset += tensor->size();
    header += concat(",", offset, "]}");
  }
  header += '}';
  header.resize(static_cast<std::size_t>(round_up(header.size(), 8)), ' ');

  Shard shard;
  shard.file = path.filename().string();
  shard.bytes = sizeof(std::uint64_t) + header.size() + offset;
  AtomicFile file(path);
  const std::uint64_t length = header.size();
  const auto length_bytes = std::as_bytes(std::span(&length, 1));
  shard.header_crc32c = crc32c(std::as_bytes(std::span(header)), crc32c(length_bytes));
  file.write(length_bytes);
  file.write(header);
  std::vector<std::byte> piece(static_cast<std::size_t>(piece_bytes));
  for (const NamedSource* tensor : order) {
    std::uint32_t crc = 0;
    for (Bytes at = 0; at < tensor->size(); at += piece_bytes) {
      const Bytes size = std::min(piece_bytes, tensor->size() - at);
      const auto bytes = tensor->bytes(at, std::span(piece).first(static_cast<std::size_t>(size)));
      if (bytes.size() != size) {
        throw OptionError("reef::io::stream_safetensors: '", path.string(), "': tensor '",
                          tensor->name, "' gave ", bytes.size(), " bytes where it has ", size,
                          ".\n  fix: as many as `room` has.");
      }
      crc = crc32c(bytes, crc);
      file.write(bytes);
    }
    shard.tensors.push_back({tensor->name, crc});
  }
  file.commit();
  return shard;
}

/// The same of tensors in memory.
inline Shard write_safetensors(const std::filesystem::path& path,
                               std::span<const NamedView> tensors, const Metadata& metadata = {}) {
  std::vector<NamedSource> sources;
  for (const auto& [name, view] : tensors) {
    const auto* const data = static_cast<const std::byte*>(view.data());
    sources.push_back(
        {name, view.shape(), view.element(), [data](Bytes offset, std::span<const std::byte> room) {
           return std::span(data + offset, room.size());
         }});
  }
  return stream_safetensors(path, sources, metadata);
}

}  // namespace reef::inline v0::io
