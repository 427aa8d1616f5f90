#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace io {

static_assert(std::endian::native == std::endian::little,
              "reef::io: safetensors files are little-endian, as the memory must be.");

using Metadata = std::map<std::string, std::string>;

/// The number of bytes that are written to or read from a file at once, few
/// enough to be still in a core's cache when their checksum is computed.
inline constexpr Bytes piece_bytes = Bytes{1} << 18;

/// The name, dtype, shape and position of a tensor in a safetensors file.
struct StoredTensor {
  std::string name;
  std::string dtype;  // the name of the element type: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  Bytes begin = 0;  // the offset of the first byte, counted from the end of the header
  Bytes end = 0;

  [[nodiscard]] Bytes bytes() const { return end - begin; }
};

/// The checksum (CRC-32C) of the bytes of the tensor `name`.
struct TensorChecksum {
  std::string name;
  std::uint32_t crc32c = 0;

  friend bool operator==(const TensorChecksum&, const TensorChecksum&) = default;
};

/// A written safetensors file of a checkpoint: its size, and checksums that are compared when it is read again.
struct Shard {
  std::string file;  // the file's name, without its folder
  Bytes bytes = 0;
  std::uint32_t header_crc32c = 0;
  std::vector<TensorChecksum> tensors;

  friend bool operator==(const Shard&, const Shard&) = default;
};

namespace detail {

/// Returns the number of bytes of an element of this safetensors type (dtype); 0 for an unknown one.
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

std::string shape_text(std::span<const std::int64_t> shape);

std::span<const std::int64_t> extents_of(const Shape& shape,
                                         std::array<std::int64_t, Shape::max_rank>& to);

}  // namespace detail

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/stored_tensor.ipp>
#endif
