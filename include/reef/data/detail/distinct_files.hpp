#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// Sorts files by their names. Throws OptionError if one is named twice, also by two paths to it: what is
/// held out of the one would be trained on in the other.
inline void sort_distinct(std::vector<std::filesystem::path>& files, std::string_view who) {
  std::sort(files.begin(), files.end());
  std::map<std::filesystem::path, std::filesystem::path> named;
  for (const std::filesystem::path& file : files) {
    std::error_code unknown;  // what cannot be found is refused when it is read
    const std::filesystem::path place = std::filesystem::weakly_canonical(file, unknown);
    const auto [first, is_new] = named.emplace(unknown ? file : place, file);
    if (is_new) continue;
    throw OptionError("reef::data::", who, ": '", file.string(), "' is named twice, as '",
                      first->second.string(), "' too.\n  fix: name each file once.");
  }
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
