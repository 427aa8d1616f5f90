#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/json_string.hpp>
#include <reef/io/safetensors_writer.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

inline void check_utf8(const std::filesystem::path& path, std::string_view text, const char* what) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      throw OptionError("reef::io::write_safetensors: '", path.string(), "': the ", what, " ",
                        json_string(text), " is no UTF-8.\n  fix: use UTF-8.");
    }
    i += length;
  }
}

REEF_INLINE std::vector<const NamedSource*> in_order(const std::filesystem::path& path,
                                                     std::span<const NamedSource> tensors) {
  std::vector<const NamedSource*> order;
  for (const NamedSource& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const NamedSource* a, const NamedSource* b) {
    const Bytes wide_a = size_of(a->element);
    const Bytes wide_b = size_of(b->element);
    return wide_a != wide_b ? wide_a > wide_b : a->name < b->name;
  });
  std::map<std::string_view, int> names;
  for (const NamedSource* tensor : order) {
    check_utf8(path, tensor->name, "name");
    if (tensor->name == "__metadata__" || ++names[tensor->name] > 1) {
      throw OptionError("reef::io::write_safetensors: '", path.string(), "': the name '",
                        tensor->name, "' is taken.\n  fix: give each tensor a name of its own.");
    }
  }
  return order;
}

/// What says where each tensor is, padded to 8 bytes.
inline std::string safetensors_header(const std::filesystem::path& path,
                                      std::span<const NamedSource* const> order,
                                      const Metadata& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      check_utf8(path, key, "metadata");
      check_utf8(path, value, "metadata");
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
    header.append(":{\"dtype\":\"").append(dtype_of(tensor->element));
    header += "\",\"shape\":[";
    for (const std::int64_t extent : extents_of(tensor->shape, extents)) {
      if (header.back() != '[') header += ',';
      header += std::to_string(extent);
    }
    header += concat("],\"data_offsets\":[", offset);
    offset += tensor->size();
    header += concat(",", offset, "]}");
  }
  header += '}';
  header.resize(static_cast<std::size_t>(round_up(header.size(), 8)), ' ');
  return header;
}

}  // namespace detail

REEF_INLINE Shard stream_safetensors(const std::filesystem::path& path,
                                     std::span<const NamedSource> tensors,
                                     const Metadata& metadata) {
  const std::vector<const NamedSource*> order = detail::in_order(path, tensors);
  const std::string header = detail::safetensors_header(path, order, metadata);
  Bytes data = 0;
  for (const NamedSource* tensor : order) data += tensor->size();
  Shard shard;
  shard.file = path.filename().string();
  shard.bytes = sizeof(std::uint64_t) + header.size() + data;
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
      const Bytes size = (std::min)(piece_bytes, tensor->size() - at);
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

REEF_INLINE Shard write_safetensors(const std::filesystem::path& path,
                                    std::span<const NamedView> tensors, const Metadata& metadata) {
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

}  // namespace io
}  // namespace v0
}  // namespace reef
