#pragma once

#include <string_view>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/data/json_lines.hpp>
#include <reef/data/labelled_texts.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE std::vector<LabelledText> read_labelled_texts(const std::filesystem::path& file, std::int64_t classes) {
  std::vector<LabelledText> texts;
  for_each_json_line(file, [&](const io::Json& json, const std::string& source) {
    LabelledText text{io::require<std::string>(json, "text", source)};
    const auto label = io::require<std::int64_t>(json, "label", source);
    if (text.text.empty()) {
      throw DecodeError("reef::data: ", source, ": the text is empty.\n  why: its class is told at its last token.\n",
                        "  fix: leave the line out.");
    }
    if (label < 0 || label >= classes) {
      throw DecodeError("reef::data: ", source, ": label is ", label, ", of ", classes, " classes.\n  fix: 0 to ",
                        classes - 1, ", or more classes.");
    }
    text.label = static_cast<std::int32_t>(label);
    texts.push_back(std::move(text));
  });
  if (texts.empty()) {
    throw DecodeError("reef::data: ", file.string(), " has no texts.\n",
                      "  fix: lines such as {\"text\": \"well done\", \"label\": 1}.");
  }
  return texts;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
