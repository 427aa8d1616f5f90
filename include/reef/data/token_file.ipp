#pragma once

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/data/detail/file_kind.hpp>
#include <reef/data/detail/npy_header.hpp>
#include <reef/data/detail/token_width.hpp>
#include <reef/data/token_file.hpp>
#include <reef/io/atomic_file.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE TokenFile::TokenFile(std::filesystem::path path) : file_(std::move(path)) {
  const std::size_t size = file_.bytes().size();
  const std::int32_t magic = size >= sizeof(std::int32_t) ? header(0) : 0;
  if (magic == gpt2_magic || magic == llama3_magic) {
    width_ = magic == gpt2_magic ? 2 : 4;
    offset_ = header_bytes;
    require_header(magic == gpt2_magic ? 1 : 7);
  } else if (magic > 20240000 && magic < 20250000) {
    // As nanoGPT's tokens: 308 after one above 54,912, which GPT-2 does not have.
    refuse(concat("it begins with ", magic, ", as other files of llm.c do"),
           "name a file of tokens, whose number is 20240520 or 20240801");
  } else if (detail::begins_as_npy(raw())) {
    read_npy_header();
  } else {
    judge_values();
  }
  if (size <= offset_) refuse("it has no tokens", "leave it out");
}

REEF_INLINE TokenView TokenFile::tokens() const& {
  const std::byte* const data = file_.bytes().data() + offset_;  // a multiple of the width
  if (width_ == 1) return std::span(reinterpret_cast<const std::uint8_t*>(data), size());
  if (width_ == 2) return std::span(reinterpret_cast<const std::uint16_t*>(data), size());
  return std::span(reinterpret_cast<const std::uint32_t*>(data), size());
}

REEF_INLINE std::int32_t TokenFile::header(std::size_t index) const {
  std::int32_t value = 0;
  std::memcpy(&value, file_.bytes().data() + index * sizeof(value), sizeof(value));
  return value;
}

REEF_INLINE void TokenFile::require_header(std::int32_t version) const {
  const std::size_t size = file_.bytes().size();
  if (size < header_bytes) {
    refuse(concat("its ", size, " bytes are less than llm.c's header of ", header_bytes),
           "copy it again; it was cut off");
  }
  if (header(1) != version) {
    refuse(
        concat("its header has version ", header(1), ", expected ", version, " after ", header(0)),
        "write it with llm.c's current scripts, or with write_token_file");
  }
  const std::int64_t count = header(2);
  const auto expected =
      static_cast<std::int64_t>(header_bytes) + count * static_cast<std::int64_t>(width_);
  if (count < 0 || expected != static_cast<std::int64_t>(size)) {
    refuse(concat("its header promises ", count, " tokens of ", width_, " bytes, ", expected,
                  " bytes in all, but it has ", size),
           "copy it again; it was cut off, or has something after its end");
  }
}

REEF_INLINE void TokenFile::read_npy_header() {
  const auto npy = detail::parse_npy_header(raw());
  if (!npy) refuse("its header is none of NumPy's", "copy it again; it was cut off");
  width_ = npy->descr == "|u1"                          ? 1
           : npy->descr == "<u2"                        ? 2
           : npy->descr == "<u4" || npy->descr == "<i4" ? 4
                                                        : 0;
  if (width_ == 0) {
    refuse(concat("its elements are ", in_quotes(npy->descr), ", no tokens of at most 4 bytes"),
           "write it again from tokens.astype(numpy.uint16), or numpy.uint32");
  }
  if (npy->shape.size() != 1) {
    refuse(concat("its array has ", npy->shape.size(), " axes"),
           "write it again from tokens.reshape(-1)");
  }
  offset_ = npy->data;
  const std::uint64_t count = npy->shape.front();
  const std::size_t rest = file_.bytes().size() - offset_;
  if (offset_ % width_ != 0 || rest % width_ != 0 || rest / width_ != count) {
    refuse(concat("its header promises ", count, " tokens of ", width_, " bytes from byte ",
                  offset_, " on, but it has ", rest, " bytes there"),
           "copy it again; it was cut off, or has something after its end");
  }
  width_from_ = "NumPy's header";
}

REEF_INLINE void TokenFile::judge_values() {
  const std::size_t size = raw().size();
  if (const auto kind = detail::kind_of_file(raw())) {
    refuse(concat("it is no file of tokens, but ", *kind), "name a file of tokens");
  }
  const detail::TokenWidth seen = detail::width_of_tokens(raw());
  if (seen.bytes == 0) refuse(std::string(seen.otherwise), std::string(seen.fix));
  width_ = seen.bytes;
  width_from_ = "its values";
  if (size % width_ != 0) {
    refuse(width_ == 2
               ? concat("it has no header, and ", size, " bytes, an odd number, are no uint16")
               : concat("it has no header, its values are of uint32, and ", size,
                        " bytes are no multiple of 4"),
           "copy it again; it was cut off, or is no file of tokens");
  }
}

REEF_INLINE void TokenFile::refuse(const std::string& why, const std::string& fix) const {
  throw DecodeError("reef::data::TokenFile: cannot use '", path().string(), "': ", why,
                    ".\n  fix: ", fix, ".");
}

REEF_INLINE void write_token_file(const std::filesystem::path& path,
                                  std::span<const std::int32_t> tokens) {
  if (tokens.empty() || tokens.size() > (std::numeric_limits<std::int32_t>::max)()) {
    throw OptionError("reef::data::write_token_file: ", tokens.size(), " tokens for '",
                      path.string(), "'.\n  fix: 1 to 2^31 - 1 a file, the rest in the next.");
  }
  std::vector<std::uint16_t> narrow;
  narrow.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token > (std::numeric_limits<std::uint16_t>::max)()) {
      throw OptionError("reef::data::write_token_file: token ", narrow.size(), " is ", token,
                        ", the format holds 0 to 65535.\n  fix: a vocabulary of at most 65536.");
    }
    narrow.push_back(static_cast<std::uint16_t>(token));
  }
  std::int32_t header[256] = {TokenFile::gpt2_magic, 1, static_cast<std::int32_t>(tokens.size())};
  io::AtomicFile file(path);
  file.write(std::as_bytes(std::span(header)));
  file.write(std::as_bytes(std::span(narrow)));
  file.commit();
}

}  // namespace data
}  // namespace v0
}  // namespace reef
