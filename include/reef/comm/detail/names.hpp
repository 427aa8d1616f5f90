#pragma once

#include <mpi.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/circle.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/error.hpp>

namespace reef::inline v0::comm::detail {

/// The largest tag that MPI takes.
inline int largest_tag(const Communicator& communicator) {
  int* largest = nullptr;
  int found = 0;
  MPI_Comm_get_attr(communicator.handle(), MPI_TAG_UB, &largest, &found);
  return found != 0 ? *largest : 32767;
}

/// The operations that this rank knows, and the MPI tags that they use. Any thread.
class Names {
public:
  /// Half of the tags for point-to-point names, half for queues and groups on them, two each.
  explicit Names(int largest_tag) : tags_(static_cast<std::uint64_t>(largest_tag) / 4) {}

  /// Remembers the operation between two ranks and returns the tag of its messages. Throws OptionError
  /// if another one has it: MPI could not tell their messages apart.
  int transfer(std::uint64_t operation, Kind kind, std::string_view name) {
    const std::scoped_lock lock(mutex_);
    const int tag = static_cast<int>(mix(operation) % (2 * tags_));
    claim(tag, operation, name);
    remember(operation, kind, name);
    return tag;
  }

  /// Of all ranks: no group.
  void collective(std::uint64_t operation, Kind kind, std::string_view name,
                  std::string_view group) {
    const std::scoped_lock lock(mutex_);
    remember(operation, kind, name, group);
  }

  /// The first of the two tags of a queue's collectives of all ranks, or of groups of that name.
  int queue(std::string_view name, std::string_view group) {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t meeting = meeting_id(name, group);
    const int tag = static_cast<int>(2 * tags_ + 2 * (mix(meeting) % (tags_ - 1)));
    claim(tag, meeting, group.empty() ? name : group);
    return tag;
  }

  /// "all-reduce 'loss'", or the bare number of an operation that this rank does not know.
  std::string text(std::uint64_t operation) {
    const std::scoped_lock lock(mutex_);
    const auto found = texts_.find(operation);
    return found != texts_.end()
               ? found->second
               : concat("an operation that this rank never submitted (id ", operation, ")");
  }

private:
  void claim(int tag, std::uint64_t owner, std::string_view name) {
    const auto [place, fresh] = owners_.try_emplace(tag, owner);
    if (fresh || place->second == owner) return;
    throw OptionError("reef::comm: '", name,
                      "' gets the same MPI tag as another name.\n  why: this MPI has only ",
                      4 * tags_,
                      " tags, and names share them by their hash.\n"
                      "  fix: change the name a little.");
  }
  void remember(std::uint64_t operation, Kind kind, std::string_view name,
                std::string_view group = {}) {
    if (texts_.find(operation) != texts_.end()) return;
    std::string text = concat(role_of(kind), " '", name, "'");
    if (!group.empty()) text += concat(" of group '", group, "'");
    texts_.emplace(operation, std::move(text));
  }

  std::uint64_t tags_;
  std::mutex mutex_;
  std::unordered_map<int, std::uint64_t> owners_;
  std::unordered_map<std::uint64_t, std::string> texts_;
};

}  // namespace reef::inline v0::comm::detail
