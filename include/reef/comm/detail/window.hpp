#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/collective_scope.hpp>
#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/comm/detail/peer_memory.hpp>
#include <reef/comm/detail/shared_memory.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/options.hpp>
#include <reef/core/error.hpp>
#include <reef/core/group.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// What one rank tells the others about one channel. Written by that rank alone; the counters only
/// rise, over all collectives of the channel, so that nothing is ever reset.
struct alignas(64) WindowBoard {
  std::atomic<std::uint64_t> arrived{0};    ///< rounds whose chunks are in my slots
  std::atomic<std::uint64_t> folded{0};     ///< rounds whose result is in my slots
  std::atomic<std::uint64_t> done{0};       ///< rounds of which I read nothing any more
  std::atomic<std::uint64_t> withdrawn{0};  ///< 1: I failed; nothing that was read of me counts
  struct Label {
    Header header;
    std::array<char, 96> name{};
    std::uint64_t offsets = 0;  ///< a hash of the plan's
    /// Where my array would begin if I had all of it: what others read of me in place.
    std::uintptr_t chunks = 0;  ///< to reduce
    std::uintptr_t shard = 0;   ///< to gather
  };
  std::array<Label, 2> labels{};  ///< per slot: which operation it belongs to
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// What all ranks of one collective must write alike.
WindowBoard::Label label_of(const Header& prototype, const ExchangePlan& plan,
                            std::string_view name);

/// The part of the shared memory that one queue has for a family of groups, as one group of it sees it: a
/// board and two slots of each of its members, by position.
class WindowChannel {
public:
  WindowChannel(std::vector<int> members, std::vector<std::byte*> places, Bytes slot_bytes,
                const PeerMemory& peers)
      : members_(std::move(members)),
        places_(std::move(places)),
        slot_bytes_(slot_bytes),
        peers_(&peers) {}

  [[nodiscard]] WindowBoard& board(int position) const;
  [[nodiscard]] std::byte* slot(int position, std::uint64_t round) const;
  [[nodiscard]] Bytes slot_bytes() const { return slot_bytes_; }
  /// How to read the others' arrays where they are: without slots, if it is usable.
  [[nodiscard]] const PeerMemory& peers() const { return *peers_; }

  /// True if the counter of every member has come to `wanted`.
  [[nodiscard]] bool all_at(std::atomic<std::uint64_t> WindowBoard::*counter,
                            std::uint64_t wanted) const;

  /// The ranks but the one at `own` whose counter has not come to `wanted`.
  void behind(std::vector<int>& ranks, int own, std::atomic<std::uint64_t> WindowBoard::*counter,
              std::uint64_t wanted) const;

  /// Throws Mismatch unless the label at `position` for that slot is of the same operation as `mine`.
  void check_label(int position, std::size_t slot, const WindowBoard::Label& mine, Kind kind) const;

  /// Rounds of all collectives so far: where the next one starts. The same on all members.
  std::uint64_t rounds = 0;

private:
  std::vector<int> members_;
  std::vector<std::byte*> places_;
  Bytes slot_bytes_;
  const PeerMemory* peers_;
};

/// Memory that all ranks of one node share, cut into channels that queues claim by their name and that of
/// a family of groups.
///
/// | who    | constructor: all ranks of the communicator, collective, blocks                          |
/// | memory | (board + 2 slots) * channels a rank; pages that no queue uses are never touched         |
class SharedWindow {
public:
  static constexpr std::size_t channel_count = 16;
  static constexpr Bytes slot_bytes = Bytes{256} << 10;

  SharedWindow(const Communicator& node, bool read_peers);
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// Whether the ranks have it; if not, nothing else here can be used.
  [[nodiscard]] const SharedMemory& memory() const { return memory_; }

  /// The channel of the queue of that name for groups of that name: the first to ask claims it, for all
  /// ranks. This rank asks for it with the same members each time; a group without a name is all ranks.
  WindowChannel& channel(std::string_view queue, const Group& group);

  /// Whether collectives read the others' arrays where they are; if not, they go through slots.
  [[nodiscard]] bool reads_peers() const { return peers_.usable(); }

private:
  using Directory = std::array<std::atomic<std::uint64_t>, channel_count>;
  static constexpr Bytes directory_bytes = 4096;
  static constexpr Bytes channel_bytes = round_up(sizeof(WindowBoard), 4096) + 2 * slot_bytes;
  static constexpr Bytes place_offset = directory_bytes / 2;
  static_assert(sizeof(Directory) <= place_offset);
  static constexpr Bytes bytes_of_rank = directory_bytes + channel_count * channel_bytes;

  void connect(const Communicator& node, bool read_peers);

  WindowChannel& open(std::size_t number, const std::vector<int>& members);

  PeerMemory peers_;
  SharedMemory memory_;
  std::vector<std::byte*> bases_;
  std::array<std::unique_ptr<WindowChannel>, channel_count> channels_;
};

/// The shared memory of all ranks, or nothing where messages are to be used. Throws OptionError if
/// the options ask for what these ranks cannot have. All ranks; collective, blocks.
std::unique_ptr<SharedWindow> open_window(const Communicator& ranks,
                                          const ProgressOptions& options);

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/window.ipp>
#endif
