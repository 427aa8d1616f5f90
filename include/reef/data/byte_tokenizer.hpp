#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// A tokenizer that encodes each byte of a text as one token: it needs no files, takes any text, and has 256 tokens.
///
/// \code
/// const std::vector<std::int32_t> tokens = data::ByteTokenizer::encode("Hello");  // 72, 101, ...
/// \endcode
struct ByteTokenizer {
  static constexpr std::string_view name = "bytes";
  static constexpr std::int32_t vocabulary = 256;

  [[nodiscard]] static std::vector<std::int32_t> encode(std::string_view text);

  /// Returns the bytes of the tokens. Throws DecodeError if a token is outside [0, 256).
  [[nodiscard]] static std::string decode(std::span<const std::int32_t> tokens);
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/byte_tokenizer.ipp>
#endif
