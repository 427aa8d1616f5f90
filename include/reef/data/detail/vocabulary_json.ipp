#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/data/detail/vocabulary_json.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

REEF_INLINE BpeFiles vocabulary_of(const io::Json& json, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& token, const std::string& why) {
    refuse_tokenizer(path, concat(": token ", in_quotes(token), " "), why);
  };
  if (!json.is_object()) {
    refuse_tokenizer(path, " is ", "no object of tokens and ids", "name GPT-2's vocab.json.");
  }
  BpeFiles files;
  files.tokens.resize(json.size());
  std::vector<bool> seen(json.size(), false);
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= json.size()) {
      refuse(token,
             concat("has the id ", in_quotes(id.dump()), ", expected 0 to ", json.size() - 1));
    }
    const auto index = id.get<std::size_t>();
    if (seen[index]) refuse(token, concat("has the id ", index, " of another token"));
    seen[index] = true;
    std::string& bytes = files.tokens[index];
    if (!bytes_of_visible(token, bytes)) {
      if (!looks_special(token)) refuse(token, "has a character that stands for no byte");
      bytes = token;
    }
    if (bytes.empty()) refuse(token, "is empty");
    if (!files.ids.emplace(bytes, static_cast<std::int32_t>(index)).second)
      refuse(token, "is another token's bytes");
  }
  require_bytes(files, path);
  return files;
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
