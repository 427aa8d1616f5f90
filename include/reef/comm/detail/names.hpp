#pragma once

#include <mpi.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <reef/core/error.hpp>

namespace reef::inline v0::comm::detail {

/// The largest tag that MPI takes.
int largest_tag();

/// The operations that this rank knows, and the MPI tags that they use. Any thread.
class Names {
public:
  /// Half of the tags for point-to-point names, half for queues and groups on them, two each.
  explicit Names(int largest_tag) : tags_(static_cast<std::uint64_t>(largest_tag) / 4) {}

  /// Remembers the operation between two ranks and returns the tag of its messages. Throws OptionError
  /// if another one has it: MPI could not tell their messages apart.
  int transfer(std::uint64_t operation, Kind kind, std::string_view name);

  /// Of all ranks: no group.
  void collective(std::uint64_t operation, Kind kind, std::string_view name,
                  std::string_view group);

  /// The first of the two tags of a queue's collectives of all ranks, or of groups of that name.
  int queue(std::string_view name, std::string_view group);

  /// "all-reduce 'loss'", or the bare number of an operation that this rank does not know.
  std::string text(std::uint64_t operation);

private:
  void claim(int tag, std::uint64_t owner, std::string_view name);
  void remember(std::uint64_t operation, Kind kind, std::string_view name,
                std::string_view group = {});

  std::uint64_t tags_;
  std::mutex mutex_;
  std::unordered_map<int, std::uint64_t> owners_;
  std::unordered_map<std::uint64_t, std::string> texts_;
};

}  // namespace reef::inline v0::comm::detail

#ifndef REEF_COMPILED
#include <reef/comm/detail/names.ipp>
#endif
