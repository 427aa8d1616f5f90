#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reef {
inline namespace v0 {
namespace data {

/// A text, and the number of its class.
struct LabelledText {
  std::string text;
  std::int32_t label = 0;
};

/// Reads a file of texts with labels: each line is a JSON object with the members "text", a string, and "label", an
/// integer from 0 to `classes` - 1; other members, and empty lines, are ignored.
///
/// Throws FileError if the file cannot be read; DecodeError with the file, the line and the member for anything else,
/// for an empty text, and for a file without texts.
///
/// \code
/// for (const data::LabelledText& text : data::read_labelled_texts("reviews.jsonl", 2)) std::puts(text.text.c_str());
/// \endcode
std::vector<LabelledText> read_labelled_texts(const std::filesystem::path& file, std::int64_t classes);

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/labelled_texts.ipp>
#endif
