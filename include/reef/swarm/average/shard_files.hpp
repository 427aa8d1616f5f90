#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/swarm/average/shard_list.hpp>
#include <reef/swarm/core/digest.hpp>
#include <reef/swarm/core/message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The files of a job's training data, by shard: a peer's own, or those in a folder that fill with what others send.
///
/// | cost    | of(): a pass over all files; has() and read(): a shard is read                                      |
/// | folder  | `shards.json`, the list, and files `000000-NAME`, `000001-NAME`, ... : sorted by name they have the |
/// |         | order of the list. What is not there is zero, or missing at a file's end                            |
/// | threads | reads of several threads at a time                                                                  |
/// | errors  | FileError: a file that cannot be read or written, or has become shorter; OptionError: no files, data |
/// |         | beyond the limits of a ShardList, a folder with other files or another list in it                   |
///
/// \code
/// // given: swarm::AveragingOptions& options
/// options.shards = std::make_shared<swarm::ShardFiles>(swarm::ShardFiles::of({"text.txt"}));
/// \endcode
class ShardFiles {
public:
  /// Returns the shards of files that are there, in this order. `shard`: bytes of one.
  [[nodiscard]] static ShardFiles of(std::vector<std::filesystem::path> files, Bytes shard = 1_MiB);

  /// Returns the shards of a list in a folder, which is made if it is not there.
  [[nodiscard]] static ShardFiles in(const std::filesystem::path& folder, ShardList list);

  [[nodiscard]] const ShardList& list() const& { return list_; }
  void list() const&& = delete;
  /// Returns the list as text, and the digest of this text.
  [[nodiscard]] const std::string& text() const& { return text_; }
  void text() const&& = delete;
  [[nodiscard]] const Digest& digest() const& { return digest_; }
  void digest() const&& = delete;
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const& { return files_; }
  void files() const&& = delete;

  /// Returns the bytes of shard k, whatever they are.
  [[nodiscard]] Bulk read(std::size_t k) const;
  /// Returns true if shard k is there, with the digest of the list.
  [[nodiscard]] bool has(std::size_t k) const;
  /// Returns true if these bytes are shard k.
  [[nodiscard]] bool is(std::size_t k, std::span<const std::byte> bytes) const;
  /// Writes shard k. Throws DecodeError, and writes nothing, for bytes that are not this shard.
  void write(std::size_t k, std::span<const std::byte> bytes);

private:
  ShardFiles(ShardList list, std::vector<std::filesystem::path> files);

  ShardList list_;
  std::vector<std::filesystem::path> files_;
  std::vector<Bytes> begins_{};  ///< by file: the place of its first byte among those of all
  std::string text_;
  Digest digest_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/shard_files.ipp>
#endif
