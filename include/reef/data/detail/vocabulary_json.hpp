#pragma once

#include <filesystem>

#include <reef/data/detail/bpe_files.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// Reads an object of tokens in their visible form and ids, each of 0 to n - 1 once, out of a file.
BpeFiles vocabulary_of(const io::Json& json, const std::filesystem::path& path);

}  // namespace data::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/detail/vocabulary_json.ipp>
#endif
