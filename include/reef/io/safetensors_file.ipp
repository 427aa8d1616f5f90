#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/safetensors_file.hpp>

namespace reef {
inline namespace v0 {
namespace io {

REEF_INLINE SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, std::string_view fix)
    : fix_(fix.empty() ? "check that it is the safetensors file you meant, and copy it again." : fix),
      file_(path, fix) {
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
  const JsonSource written(source, fix_);
  read_header(parse_json(header, written, {.bytes = max_header_bytes, .depth = 8}), written);
}

REEF_INLINE const StoredTensor* SafetensorsFile::find(std::string_view name) const& {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

REEF_INLINE const StoredTensor& SafetensorsFile::at(std::string_view name) const& {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) {
    refuse(concat("it has no tensor '", name, "'; it has ", tensors_.size(), " others",
                  (tensors_.empty() ? "" : concat(", such as '", tensors_.front().name, "'"))));
  }
  return *tensor;
}

REEF_INLINE const StoredTensor& SafetensorsFile::at(std::string_view name, const Shape& shape,
                                                    Element element) const& {
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

REEF_INLINE void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> to) const {
  if (to.size() != tensor.bytes()) {
    refuse(concat("tensor '", tensor.name, "' has ", tensor.bytes(), " bytes, not ", to.size()));
  }
  read(tensor, 0, to);
}

REEF_INLINE void SafetensorsFile::read(const StoredTensor& tensor, Bytes offset,
                                       std::span<std::byte> to) const {
  if (offset > tensor.bytes() || to.size() > tensor.bytes() - offset) {
    refuse(concat("tensor '", tensor.name, "' has ", tensor.bytes(), " bytes, not ", to.size(),
                  " after ", offset));
  }
  file_.read(data_ + tensor.begin + offset, to);
}

REEF_INLINE void SafetensorsFile::read(std::string_view name, const AnyView& to) const {
  read(at(name, to.shape(), to.element()),
       {static_cast<std::byte*>(to.data()), static_cast<std::size_t>(to.bytes())});
}

REEF_INLINE void SafetensorsFile::refuse(const std::string& why) const {
  throw DecodeError("reef::io: cannot read '", file_.path().string(), "': ", why,
                    ".\n  fix: ", fix_);
}

REEF_INLINE void SafetensorsFile::read_header(const Json& header, JsonSource source) {
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

REEF_INLINE StoredTensor SafetensorsFile::read_entry(const std::string& name, const Json& entry,
                                                     JsonSource source) {
  if (!entry.is_object() || entry.size() != 3) {
    refuse(concat("entry '", name, "' is no object of dtype, shape and data_offsets"));
  }
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = require<std::string>(entry, "dtype", source);
  for (const char* const key : {"shape", "data_offsets"}) {  // the format has no real numbers
    const Json& all = entry.contains(key) ? entry[key] : Json();
    if (all.is_array() && std::ranges::any_of(all, [](const Json& one) { return one.is_number_float(); }))
      refuse(concat("entry '", name, "' has a ", key, " that is no whole number"));
  }
  tensor.shape = require<std::vector<std::int64_t>>(entry, "shape", source);
  const auto offsets = require<std::vector<std::uint64_t>>(entry, "data_offsets", source);
  const Bytes width = detail::dtype_bytes(tensor.dtype);
  if (width == 0) refuse(concat("tensor '", name, "' has the unknown dtype '", tensor.dtype, "'"));
  Bytes bytes = 1;
  const auto times = [&](Bytes factor) {
    if (factor != 0 && bytes > (std::numeric_limits<Bytes>::max)() / factor) {
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

}  // namespace io
}  // namespace v0
}  // namespace reef
