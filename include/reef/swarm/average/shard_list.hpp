#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/swarm/core/digest.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The limits of a ShardList: the most bytes of a shard, of the list's text, and the most shards and files.
inline constexpr Bytes max_shard_bytes = 4_MiB;
inline constexpr Bytes max_shard_list_bytes = 8_MiB;
inline constexpr std::size_t max_shards = 100'000;
inline constexpr std::size_t max_shard_files = 20'000;

/// The shards of a job's training data: its files, laid one behind the other, cut into ranges of equal length, of which
/// each has a digest. A peer that has the digest of this list (Genesis::shards) needs to trust nobody who sends it the
/// list or a shard.
///
///     shard k   bytes [k shard, (k + 1) shard) of all files; the last one may have fewer
///
/// \code
/// // given: std::span<const std::byte> text
/// swarm::ShardList list;
/// list.files = {{"text.txt", text.size()}};
/// for (std::size_t k = 0; k < list.count(); ++k) {
///   list.digests.push_back(swarm::sha256(text.subspan(k * list.shard, list.bytes_of(k))));
/// }
/// const std::string json = swarm::to_text(list);
/// \endcode
struct ShardList {
  /// A file of the data: the name without a folder, of [A-Za-z0-9._-], and the length.
  struct File {
    std::string name{};
    Bytes bytes = 0;

    friend bool operator==(const File&, const File&) = default;
  };

  Bytes shard = 1_MiB;             ///< bytes of a shard
  std::vector<File> files{};       ///< in the order in which they are read
  std::vector<Digest> digests{};   ///< by shard

  /// Returns the bytes of all files.
  [[nodiscard]] Bytes bytes() const;
  /// Returns the number of shards that the files are cut into.
  [[nodiscard]] std::size_t count() const;
  /// Returns the bytes of shard k.
  [[nodiscard]] Bytes bytes_of(std::size_t k) const;

  friend bool operator==(const ShardList&, const ShardList&) = default;
};

/// Returns a list as the text of one JSON object, whose digest is Genesis::shards.
std::string to_text(const ShardList& list);

/// Returns the list that a text spells. Throws DecodeError for text that is none, or is beyond a limit.
ShardList shard_list_from_text(std::string_view text);

namespace detail {

/// Returns true for a name that a file of a list may have.
bool names_shard_file(std::string_view name);

/// Throws DecodeError unless a list keeps its limits, and has a digest for each shard.
void require_sound(const ShardList& list);

}  // namespace detail

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/shard_list.ipp>
#endif
