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

/// The shards of a checkpoint are model.safetensors, or model-R.safetensors of ranks R that hold stages, and
/// optimizer-R.safetensors of rank R.
inline constexpr std::string_view model_stem = "model";
inline std::string model_stem_of(int rank) { return concat("model-", rank); }
inline std::string optimizer_stem(int rank) { return concat("optimizer-", rank); }

/// Whether a checkpoint's shard may have this name: that of such a stem, or of one in its place
/// (free_shard_name).
bool is_shard_name(std::string_view name);

/// STEM.safetensors, or STEM.1.safetensors where the folder's manifest names the former: a file that
/// can be written while the checkpoint that the folder holds stays whole. FileError for a manifest that is
/// there and cannot be read.
std::string free_shard_name(const std::filesystem::path& folder, const std::string& stem);

namespace detail {

/// Whether AtomicFile gives this name to what becomes a shard or a manifest: NAME.tmp.PROCESS.NUMBER.
bool is_temporary(std::string_view name);

/// Removes the files of a folder whose name is one of `ours`; returns how many it removed.
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

/// The folder of a checkpoint at that step: DIR/step-000001000.
///
/// \code
/// const std::vector<std::uint64_t> steps = io::complete_checkpoints("run");
/// if (!steps.empty()) io::read_manifest(io::checkpoint_folder("run", steps.back()));
/// io::remove_old_checkpoints("run", 3);
/// \endcode
std::filesystem::path checkpoint_folder(const std::filesystem::path& directory, std::uint64_t step);

/// The steps of all complete checkpoints of a directory, ascending; none if it does not exist.
std::vector<std::uint64_t> complete_checkpoints(const std::filesystem::path& directory);

/// Removes temporary files, which jobs that were ended have left, from the checkpoint folders of a directory, and
/// then folders that are empty. Whole shards stay, also where no manifest names them yet: somebody may be copying a
/// checkpoint there. The caller holds the DirectoryLock.
void remove_temporaries(const std::filesystem::path& directory);

/// Removes the files of a checkpoint's folder that a save has written and the manifest does not name: shards of a
/// checkpoint that was replaced, shards of a save that failed, and temporary files. Files of other names stay, and
/// so do files that cannot be removed.
void remove_unnamed_shards(const std::filesystem::path& folder, const Manifest& manifest);

/// The same after a save that failed, and the folder too where it has no manifest and nothing else is in it. A manifest
/// that is there and cannot be read keeps all.
void remove_failed_save(const std::filesystem::path& folder);

/// Removes a checkpoint: first its manifest, so that it is no checkpoint any more, then the shards that the
/// manifest named, then the folder if nothing else is in it. Throws FileError or DecodeError where the
/// manifest cannot be read or removed; then nothing is removed; FileError, too, where that removal cannot be
/// made durable: then all shards stay.
void remove_checkpoint(const std::filesystem::path& folder);

/// Removes all complete checkpoints of a directory but the newest `keep`, the oldest first; returns
/// the steps of those that it removed. A checkpoint whose manifest cannot be read is not counted, and
/// stays, as does every file that is not a checkpoint's. One process calls it, after it has written the
/// newest. Throws FileError for one that cannot be removed.
std::vector<std::uint64_t> remove_old_checkpoints(const std::filesystem::path& directory,
                                                  std::uint64_t keep);

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/checkpoint_folders.ipp>
#endif
