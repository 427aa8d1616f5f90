#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <reef/core/tensor_view.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/run/step_code.hpp>

namespace reef_examples {

/// The text files of a directory tree, by name.
inline std::vector<std::filesystem::path> text_files(const std::filesystem::path& root) {
  static const std::set<std::string> kinds{".hpp",   ".cpp", ".cuh", ".cu", ".md",
                                           ".cmake", ".txt", ".sh",  ".py", ".json"};
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

/// Training samples as a Trainer asks for them: inputs are "tokens" and "targets", weight 1 each.
inline reef::run::Source training_source(std::span<const std::uint8_t> text, std::int64_t context,
                                         std::uint64_t seed) {
  return [sampler = reef::data::Sampler(text, context, seed)](
             std::uint64_t first, std::span<const reef::AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
}

/// Held-out windows in their order, weighed by the targets that count.
inline reef::run::Source validation_source(std::span<const std::uint8_t> text,
                                           std::int64_t context) {
  return [windows = reef::data::Validation(text, context)](std::uint64_t first,
                                                           std::span<const reef::AnyView> inputs) {
    return static_cast<double>(windows.fill(static_cast<std::int64_t>(first), inputs));
  };
}

}  // namespace reef_examples
