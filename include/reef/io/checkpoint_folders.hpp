#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/manifest.hpp>

namespace reef {
inline namespace v0 {
namespace io {

/// The stem of the file names of a checkpoint's weight files (shards). A checkpoint consists of model.safetensors, or
/// one model-R.safetensors for each rank R that holds a pipeline stage, and of optimizer-R.safetensors for each rank R.
inline constexpr std::string_view model_stem = "model";
inline std::string model_stem_of(int rank) { return concat("model-", rank); }
inline std::string optimizer_stem(int rank) { return concat("optimizer-", rank); }

/// Returns true if a file (shard) of a checkpoint may have this name: STEM.safetensors or STEM.1.safetensors, with a
/// known stem (see free_shard_name).
bool is_shard_name(std::string_view name);

/// Returns STEM.safetensors, or STEM.1.safetensors if the folder's manifest already
/// names STEM.safetensors: a file that can be written while the checkpoint in the folder
/// stays complete. Throws FileError for a manifest that exists and cannot be read.
std::string free_shard_name(const std::filesystem::path& folder, const std::string& stem);

namespace detail {

/// Returns true if AtomicFile gives this name to temporary files of shards or manifests: NAME.tmp.PROCESS.NUMBER.
bool is_temporary(std::string_view name);

/// Removes the files of a checkpoint's folder for whose names `ours` returns true; returns the number of removed files.
template <class Ours>
std::size_t remove_files(const std::filesystem::path& folder, const Ours& ours) {
  std::vector<std::filesystem::path> found;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    if (ours(entry->path().filename().string())) found.push_back(entry->path());
  }
  std::size_t removed = 0;
  for (const auto& path : found) removed += ::unlink(path.c_str()) == 0 ? 1U : 0U;
  return removed;
}

}  // namespace detail

/// Returns the folder of the checkpoint of a step: DIR/step-000001000.
///
/// \code
/// const std::vector<std::uint64_t> steps = io::complete_checkpoints("run");
/// if (!steps.empty()) io::read_manifest(io::checkpoint_folder("run", steps.back()));
/// io::remove_old_checkpoints("run", 3);
/// \endcode
std::filesystem::path checkpoint_folder(const std::filesystem::path& directory, std::uint64_t step);

/// Returns the steps of all complete checkpoints of a directory, ascending; empty if the directory does not exist.
std::vector<std::uint64_t> complete_checkpoints(const std::filesystem::path& directory);

/// Removes temporary files, left by jobs that were killed, from the checkpoint folders of a directory,
/// and then those of these folders that are empty. Complete shards stay, even if no manifest names
/// them: they may be part of a checkpoint that is being copied. The caller must hold the DirectoryLock.
void remove_temporaries(const std::filesystem::path& directory);

/// Removes from a checkpoint's folder the files that a save wrote and the manifest does not name: shards of a
/// checkpoint that was replaced, shards of a save that failed, and temporary files. Files of other names stay, and
/// so do files that cannot be removed.
void remove_unnamed_shards(const std::filesystem::path& folder, const Manifest& manifest);

/// Removes, after a save that failed, its shards and temporary files that no manifest names, and the folder
/// if it has no manifest and is empty then. Removes nothing where a manifest exists and cannot be read.
void remove_failed_save(const std::filesystem::path& folder);

/// Removes a checkpoint: first its manifest, after which the folder is no checkpoint any more,
/// then the shards that the manifest named, then the folder if it is empty. Throws FileError
/// or DecodeError, and removes nothing, where the manifest cannot be read or removed; throws
/// FileError, and keeps all shards, where the removal of the manifest cannot be made durable.
void remove_checkpoint(const std::filesystem::path& folder);

/// Removes all complete checkpoints of a directory but the newest `keep`, the oldest first; returns the
/// steps of the removed ones. A checkpoint whose manifest cannot be read does not count as one of the
/// newest, and stays, as does every file that does not belong to a checkpoint. Only one process may call it,
/// after it has written the newest checkpoint. Throws FileError for a checkpoint that cannot be removed.
std::vector<std::uint64_t> remove_old_checkpoints(const std::filesystem::path& directory,
                                                  std::uint64_t keep);

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/checkpoint_folders.ipp>
#endif
