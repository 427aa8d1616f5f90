#pragma once

#include <string>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/end_tokens.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE std::vector<std::int32_t> end_tokens(const std::filesystem::path& folder) {
  for (const char* const name : {"generation_config.json", "config.json"}) {
    const std::filesystem::path file = folder / name;
    if (!exists(file)) continue;
    const std::string source = concat("'", file.string(), "'");
    const io::Json json = io::read_json(file);
    io::require_object(json, "", source);
    const auto found = json.find("eos_token_id");
    if (found == json.end() || found->is_null()) continue;
    if (found->is_array()) return io::require<std::vector<std::int32_t>>(json, "eos_token_id", source);
    return {io::require<std::int32_t>(json, "eos_token_id", source)};
  }
  return {};
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
