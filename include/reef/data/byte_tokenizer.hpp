#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>

namespace reef::inline v0::data {

/// Takes each byte of a text as one token: V = 256, nothing to learn, no text that it cannot hold.
struct ByteTokenizer {
  static constexpr std::string_view name = "bytes";
  static constexpr std::int32_t vocabulary = 256;

  [[nodiscard]] static std::vector<std::int32_t> encode(std::string_view text) {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  /// The bytes of the tokens. Throws DecodeError if one is outside [0, 256).
  [[nodiscard]] static std::string decode(std::span<const std::int32_t> tokens) {
    std::string text;
    text.reserve(tokens.size());
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= vocabulary) {
        throw DecodeError("reef::data::ByteTokenizer::decode: token ", token,
                          " is no byte.\n  fix: decode with the tokenizer that the model was "
                          "trained with; this one has tokens 0 to 255.");
      }
      text += static_cast<char>(token);
    }
    return text;
  }
};

}  // namespace reef::inline v0::data
