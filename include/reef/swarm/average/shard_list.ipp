#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/average/shard_list.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

REEF_INLINE bool names_shard_file(std::string_view name) {
  constexpr std::string_view allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  constexpr std::size_t longest = 128;
  return !name.empty() && name.size() <= longest && name.find_first_not_of(allowed) == std::string_view::npos;
}

REEF_INLINE void require_sound(const ShardList& list) {
  const auto refuse = [](const auto&... what) {
    throw DecodeError("reef::swarm: a list of shards with ", what..., ".\n  fix: a peer of the same job.");
  };
  constexpr Bytes most = max_shards * max_shard_bytes;
  if (list.shard < 1 || list.shard > max_shard_bytes) refuse("shards of ", list.shard, " bytes");
  if (list.files.empty() || list.files.size() > max_shard_files) refuse(list.files.size(), " files");
  Bytes bytes = 0;
  for (const ShardList::File& file : list.files) {
    if (!names_shard_file(file.name)) refuse("a file whose name is none");
    if (file.bytes < 1 || file.bytes > most - bytes) refuse("a file of ", file.bytes, " bytes behind ", bytes);
    bytes += file.bytes;
  }
  if (list.count() > max_shards || list.digests.size() != list.count()) {
    refuse(list.digests.size(), " digests of ", list.count(), " shards");
  }
}

}  // namespace detail

REEF_INLINE Bytes ShardList::bytes() const {
  Bytes sum = 0;
  for (const File& file : files) sum += file.bytes;
  return sum;
}

REEF_INLINE std::size_t ShardList::count() const { return static_cast<std::size_t>((bytes() + shard - 1) / shard); }

REEF_INLINE Bytes ShardList::bytes_of(std::size_t k) const { return (std::min)(shard, bytes() - k * shard); }

REEF_INLINE std::string to_text(const ShardList& list) {
  io::Json files = io::Json::array();
  for (const ShardList::File& file : list.files) files.push_back({file.name, file.bytes});
  io::Json digests = io::Json::array();
  for (const Digest& digest : list.digests) digests.push_back(to_hex(digest));
  return io::Json{{"shard", list.shard}, {"files", std::move(files)}, {"digests", std::move(digests)}}.dump();
}

REEF_INLINE ShardList shard_list_from_text(std::string_view text) {
  const std::string source = "a list of shards";
  const io::Json json = io::parse_json(text, source, {.bytes = max_shard_list_bytes, .depth = 4});
  ShardList list;
  list.shard = io::require<std::uint64_t>(json, "shard", source);
  for (const io::Json& file : io::require<std::vector<io::Json>>(json, "files", source)) {
    if (!file.is_array() || file.size() != 2 || !file[0].is_string() || !file[1].is_number_unsigned()) {
      throw DecodeError("reef::swarm: ", source, ": a file is no [name, bytes].\n  fix: a peer of the same job.");
    }
    list.files.push_back({file[0].get<std::string>(), file[1].get<std::uint64_t>()});
  }
  for (const auto& digest : io::require<std::vector<std::string>>(json, "digests", source)) {
    list.digests.push_back(digest_from_hex(digest, source));
  }
  detail::require_sound(list);
  return list;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
