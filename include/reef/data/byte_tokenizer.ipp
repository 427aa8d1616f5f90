#pragma once

#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/data/byte_tokenizer.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

REEF_INLINE std::string ByteTokenizer::decode(std::span<const std::int32_t> tokens) {
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

}  // namespace data
}  // namespace v0
}  // namespace reef
