#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace reef {
inline namespace v0 {
namespace nn {

/// Returns the tokens at which a model in Hugging Face's layout ends a text, by the files in its folder: those of
/// eos_token_id, a number or a list, in generation_config.json, or in config.json where the former does not say it;
/// none where neither does. A null says nothing. A number may be outside of the model's vocabulary.
///
/// Throws DecodeError, naming the file, for what is no JSON object, and for an eos_token_id that is no 32-bit integer
/// and no list of these; FileError for a file that cannot be read.
///
/// \code
/// const std::vector<std::int32_t> ends = nn::end_tokens("model");
/// const nn::GenerateOptions options{.tokens = 200, .ends = ends};
/// \endcode
std::vector<std::int32_t> end_tokens(const std::filesystem::path& folder);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/end_tokens.ipp>
#endif
