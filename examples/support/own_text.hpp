#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>

namespace reef_examples {

/// The text files of a directory tree, by name.
inline std::vector<std::filesystem::path> text_files(const std::filesystem::path& root) {
  static const std::set<std::string> kinds{".hpp",   ".cpp", ".cuh", ".cu", ".md",
                                           ".cmake", ".txt", ".sh",  ".py"};
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (std::filesystem::recursive_directory_iterator entry(root, code), end; !code && entry != end;
       entry.increment(code)) {
    if (!entry->is_regular_file(code) || entry->file_size(code) == 0) continue;
    if (kinds.contains(entry->path().extension().string())) files.push_back(entry->path());
  }
  return files;
}

/// The licences that every Debian has: text to add where there is little other.
inline std::vector<std::filesystem::path> licence_files() {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (std::filesystem::directory_iterator entry("/usr/share/common-licenses", code), end;
       !code && entry != end; entry.increment(code)) {
    if (entry->is_regular_file(code) && !entry->is_symlink(code)) files.push_back(entry->path());
  }
  return files;
}

/// What to train on when nothing is given, and what it is.
struct OwnText {
  std::vector<std::filesystem::path> files;
  std::string description;
};

/// Reef's own sources, those beside this program where it is installed, else those that it was built from;
/// while they are under 1 MB, the licences too.
inline OwnText own_text() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path built_from = REEF_DATA_DIRECTORY;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path installed = (program / REEF_INSTALLED_SOURCES).lexically_normal();
  const bool is_installed = fs::is_directory(installed, ignored);

  OwnText text{text_files(is_installed ? installed : built_from / "include"), {}};
  if (!is_installed) {
    for (const char* more : {"examples", "tests", "docs"}) {
      const auto found = text_files(built_from / more);
      text.files.insert(text.files.end(), found.begin(), found.end());
    }
  }
  if (text.files.empty()) {
    throw reef::OptionError(
        "there is no --data, and Reef's own sources are not there to take its place: "
        "not beside this program, in ",
        installed.string(), ", nor where it was built from, ", built_from.string(),
        ".\n  fix: give --data FILE...");
  }
  std::uintmax_t bytes = 0;
  for (const auto& file : text.files) bytes += fs::file_size(file, ignored);
  text.description = reef::concat(text.files.size(), " of Reef's own sources in ",
                                  (is_installed ? installed : built_from).string());
  if (bytes < 1'000'000) {
    const auto licences = licence_files();
    text.files.insert(text.files.end(), licences.begin(), licences.end());
    text.description +=
        reef::concat(" and ", licences.size(), " licences in /usr/share/common-licenses");
  }
  return text;
}

}  // namespace reef_examples
