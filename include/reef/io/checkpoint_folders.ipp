#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <reef/core/inline.hpp>
#include <reef/core/numbers.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/file.hpp>

namespace reef {
inline namespace v0 {
namespace io {

REEF_INLINE bool is_shard_name(std::string_view name) {
  constexpr std::string_view end = ".safetensors";
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  if (name.ends_with(".1")) name.remove_suffix(2);
  if (name == model_stem) return true;
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return false;
  const auto rank = parse_number<int>(name.substr(dash + 1));
  return rank && *rank >= 0 && (name == model_stem_of(*rank) || name == optimizer_stem(*rank));
}

REEF_INLINE std::string free_shard_name(const std::filesystem::path& folder,
                                        const std::string& stem) {
  const std::string name = stem + ".safetensors";
  std::error_code code;
  if (!std::filesystem::exists(folder / Manifest::file, code) && !code) return name;
  try {
    const std::vector<Shard> taken = read_manifest(folder).shards;
    const bool is_taken = std::any_of(taken.begin(), taken.end(),
                                      [&](const Shard& shard) { return shard.file == name; });
    return is_taken ? stem + ".1.safetensors" : name;
  } catch (const DecodeError&) {
    return name;  // it is damaged: there is nothing to spare
  }
}

namespace detail {

REEF_INLINE bool is_temporary(std::string_view name) {
  constexpr std::string_view mark = ".tmp.";
  const std::size_t at = name.find(mark);
  if (at == std::string_view::npos) return false;
  const std::string_view target = name.substr(0, at);
  const std::string_view numbers = name.substr(at + mark.size());
  const std::size_t dot = numbers.find('.');
  return (target == Manifest::file || is_shard_name(target)) && dot != std::string_view::npos &&
         parse_number<std::uint64_t>(numbers.substr(0, dot)) &&
         parse_number<std::uint64_t>(numbers.substr(dot + 1));
}

}  // namespace detail

REEF_INLINE std::filesystem::path checkpoint_folder(const std::filesystem::path& directory,
                                                    std::uint64_t step) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "step-%09llu", static_cast<unsigned long long>(step));
  return directory / name.data();
}

namespace detail {

/// The steps of the checkpoint folders of a directory, ascending; none if it does not exist.
inline std::vector<std::uint64_t> checkpoint_steps(const std::filesystem::path& directory) {
  std::vector<std::uint64_t> steps;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view prefix = "step-";
    if (!name.starts_with(prefix)) continue;
    const auto step = parse_number<std::uint64_t>(std::string_view(name).substr(prefix.size()));
    if (step && entry->path() == checkpoint_folder(directory, *step)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace detail

REEF_INLINE std::vector<std::uint64_t> complete_checkpoints(
    const std::filesystem::path& directory) {
  std::vector<std::uint64_t> steps = detail::checkpoint_steps(directory);
  std::erase_if(steps, [&](std::uint64_t step) {
    std::error_code ignored;
    return !std::filesystem::is_regular_file(checkpoint_folder(directory, step) / Manifest::file,
                                             ignored);
  });
  return steps;
}

REEF_INLINE void remove_temporaries(const std::filesystem::path& directory) {
  for (const std::uint64_t step : detail::checkpoint_steps(directory)) {
    const std::filesystem::path folder = checkpoint_folder(directory, step);
    const auto removed = detail::remove_files(folder, detail::is_temporary);
    if (removed > 0) ::rmdir(folder.c_str());  // unless something else is in it
  }
}

REEF_INLINE void remove_unnamed_shards(const std::filesystem::path& folder,
                                       const Manifest& manifest) {
  detail::remove_files(folder, [&](std::string_view name) {
    return detail::is_temporary(name) ||
           (is_shard_name(name) &&
            std::none_of(manifest.shards.begin(), manifest.shards.end(),
                         [&](const Shard& shard) { return shard.file == name; }));
  });
}

REEF_INLINE void remove_failed_save(const std::filesystem::path& folder) {
  std::error_code code;
  const bool complete = std::filesystem::exists(folder / Manifest::file, code) || code;
  try {
    remove_unnamed_shards(folder, complete ? read_manifest(folder) : Manifest{});
  } catch (const Error&) {
    return;
  }
  if (!complete) ::rmdir(folder.c_str());  // unless it is a file, or something of others is in it
}

REEF_INLINE void remove_checkpoint(const std::filesystem::path& folder) {
  const Manifest manifest = read_manifest(folder);
  if (::unlink((folder / Manifest::file).c_str()) != 0) {
    detail::throw_file_error("remove", folder / Manifest::file, errno,
                             "make its folder writable, or remove it yourself.");
  }
  // A crash leaves shards that nobody names rather than a manifest that names what is gone.
  if (const int code = detail::sync_folder(folder); code != 0) {
    detail::throw_file_error(
        "make durable the removal of", folder / Manifest::file, code,
        "check the disk; it is no checkpoint any more, and its shards are there: remove its folder yourself.");
  }
  for (const Shard& shard : manifest.shards) ::unlink((folder / shard.file).c_str());
  ::rmdir(folder.c_str());
}

REEF_INLINE std::vector<std::uint64_t> remove_old_checkpoints(
    const std::filesystem::path& directory, std::uint64_t keep) {
  std::vector<std::uint64_t> readable;
  for (const std::uint64_t step : complete_checkpoints(directory)) {
    try {
      read_manifest(checkpoint_folder(directory, step));
      readable.push_back(step);
    } catch (const Error&) {  // of nobody knows what
    }
  }
  if (readable.size() <= keep) return {};
  readable.resize(readable.size() - keep);
  for (const std::uint64_t step : readable) remove_checkpoint(checkpoint_folder(directory, step));
  return readable;
}

}  // namespace io
}  // namespace v0
}  // namespace reef
