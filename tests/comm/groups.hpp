#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/group.hpp>

// Every way to part the ranks into groups, and to travel within them.

namespace reef::test {

/// How collectives go: by messages, through slots in shared memory, or by reading arrays in place.
enum class Travel : std::uint8_t { messages, slots, reads };

inline comm::ProgressOptions options_of(Travel way, Bytes piece = comm::default_piece_bytes) {
  comm::ProgressOptions options;
  options.deadline = 40;
  options.transport = way == Travel::messages ? comm::Transport::messages : comm::Transport::window;
  options.read_peers = way == Travel::reads;
  options.piece_bytes = piece;
  return options;
}

/// Whether the way is one that the system does not let go, so that another would be tested again.
inline bool tests_another_way(Travel way, const comm::Communicator& world) {
  if (way != Travel::reads || world.size() == 1) return false;
  return !comm::Progress(world, options_of(way)).reads_peers();
}
inline constexpr const char* no_reads = "the system lets no process read another: the slots again";

/// By rank the number of its part, parts being numbered by their first ranks: every way to part `ranks` ranks.
inline std::vector<std::vector<int>> partitions_of(int ranks) {
  std::vector<std::vector<int>> all{{}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& parts : all) {
      const int next = parts.empty() ? 0 : *std::max_element(parts.begin(), parts.end()) + 1;
      for (int part = 0; part <= next; ++part) {
        longer.push_back(parts);
        longer.back().push_back(part);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// The group of a family that has this rank.
inline Group own_group(const std::string& family, const std::vector<int>& parts, int rank) {
  Group group{family, {}};
  for (int other = 0; other < static_cast<int>(parts.size()); ++other) {
    if (parts[static_cast<std::size_t>(other)] == parts[static_cast<std::size_t>(rank)]) {
      group.members.push_back(other);
    }
  }
  return group;
}

/// Even shards, everything with the last member, and odd ones with an empty one between.
inline std::vector<std::int64_t> offsets_of(int number, std::int64_t n, int members) {
  if (number == 0) return comm::even_offsets(n, members);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(members) + 1, number == 1 ? 0 : n);
  offsets.front() = 0;
  offsets.back() = n;
  if (number == 2 && members > 1) offsets[1] = n / 3;
  if (number == 2 && members > 2) offsets[2] = n / 3;
  return offsets;
}
inline constexpr int shardings = 3;

}  // namespace reef::test
