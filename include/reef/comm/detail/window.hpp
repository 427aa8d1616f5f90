#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/circle.hpp>
#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/comm/detail/peer_memory.hpp>
#include <reef/comm/detail/shared_memory.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/options.hpp>
#include <reef/core/error.hpp>
#include <reef/core/group.hpp>
#include <reef/core/hash.hpp>

namespace reef::inline v0::comm::detail {

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
inline WindowBoard::Label label_of(const Header& prototype, const ExchangePlan& plan,
                                   std::string_view name) {
  WindowBoard::Label label;
  label.header = prototype;
  const Bytes total = static_cast<Bytes>(plan.offsets.back()) * plan.element;
  label.header.bytes = static_cast<std::uint32_t>(total);
  label.header.piece = static_cast<std::uint32_t>(total >> 32);
  std::copy_n(name.begin(), std::min(name.size(), label.name.size() - 1), label.name.begin());
  Hash hash;
  for (const std::int64_t offset : plan.offsets) hash.add(offset);
  label.offsets = hash.value();
  return label;
}

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

  [[nodiscard]] WindowBoard& board(int position) const {
    return *std::launder(
        reinterpret_cast<WindowBoard*>(places_[static_cast<std::size_t>(position)]));
  }
  [[nodiscard]] std::byte* slot(int position, std::uint64_t round) const {
    return places_[static_cast<std::size_t>(position)] + sizeof(WindowBoard) +
           (round % 2) * slot_bytes_;
  }
  [[nodiscard]] Bytes slot_bytes() const { return slot_bytes_; }
  /// How to read the others' arrays where they are: without slots, if it is usable.
  [[nodiscard]] const PeerMemory& peers() const { return *peers_; }

  /// True if the counter of every member has come to `wanted`.
  [[nodiscard]] bool all_at(std::atomic<std::uint64_t> WindowBoard::*counter,
                            std::uint64_t wanted) const {
    return std::all_of(places_.begin(), places_.end(), [&](const std::byte* base) {
      const auto* board = std::launder(reinterpret_cast<const WindowBoard*>(base));
      return (board->*counter).load(std::memory_order_acquire) >= wanted;
    });
  }

  /// The ranks but the one at `own` whose counter has not come to `wanted`.
  void behind(std::vector<int>& ranks, int own, std::atomic<std::uint64_t> WindowBoard::*counter,
              std::uint64_t wanted) const {
    ranks.clear();
    for (int position = 0; position < static_cast<int>(members_.size()); ++position) {
      if (position == own) continue;
      if ((board(position).*counter).load(std::memory_order_acquire) < wanted) {
        ranks.push_back(members_[static_cast<std::size_t>(position)]);
      }
    }
  }

  /// Throws Mismatch unless the label at `position` for that slot is of the same operation as `mine`.
  void check_label(int position, std::size_t slot, const WindowBoard::Label& mine,
                   Kind kind) const {
    const WindowBoard::Label& found = board(position).labels[slot];
    const Header& want = mine.header;
    const bool same = found.header.magic == want.magic &&
                      found.header.operation == want.operation &&
                      found.header.sequence == want.sequence && found.header.bytes == want.bytes &&
                      found.header.piece == want.piece;
    if (same && found.offsets == mine.offsets) return;
    std::array<char, 96> name = found.name;
    name.back() = '\0';
    throw Mismatch{members_[static_cast<std::size_t>(position)],
                   kind,
                   want,
                   found.header,
                   0,
                   name.data(),
                   same};
  }

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

  SharedWindow(const Communicator& node, bool read_peers)
      : peers_(node.rank()), memory_(node, bytes_of_rank) {
    if (!memory_.usable()) return;
    for (int rank = 0; rank < node.size(); ++rank) bases_.push_back(memory_.of(rank));
    std::byte* const mine = memory_.of(node.rank());
    new (mine) Directory();
    new (mine + place_offset) PeerMemory::Place(peers_.mine());
    for (std::size_t channel = 0; channel < channel_count; ++channel) {
      new (mine + directory_bytes + channel * channel_bytes) WindowBoard();
    }
    const Watch watch("setting up the memory that ranks share");
    check_mpi(MPI_Barrier(node.handle()), "MPI_Barrier");  // every board is known to be zero
    connect(node, read_peers);
  }
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// Whether the ranks have it; if not, nothing else here can be used.
  [[nodiscard]] const SharedMemory& memory() const { return memory_; }

  /// The channel of the queue of that name for groups of that name: the first to ask claims it, for all
  /// ranks. This rank asks for it with the same members each time; a group without a name is all ranks.
  WindowChannel& channel(std::string_view queue, const Group& group) {
    const std::uint64_t key = meeting_id(queue, group.name) | 1;
    Directory& directory = *std::launder(reinterpret_cast<Directory*>(bases_.front()));
    for (std::size_t i = 0; i < channel_count; ++i) {
      std::uint64_t found = 0;
      if (directory[i].compare_exchange_strong(found, key) || found == key)
        return open(i, group.members);
    }
    throw OptionError("reef::comm: more than ", channel_count,
                      " queues, and names of groups on them, use collectives in shared memory, at ",
                      place_of(queue, group.name),
                      ".\n  fix: share queues, give groups without common members one name, or set "
                      "ProgressOptions::transport to Transport::messages.");
  }

  /// Whether collectives read the others' arrays where they are; if not, they go through slots.
  [[nodiscard]] bool reads_peers() const { return peers_.usable(); }

private:
  using Directory = std::array<std::atomic<std::uint64_t>, channel_count>;
  static constexpr Bytes directory_bytes = 4096;
  static constexpr Bytes channel_bytes = round_up(sizeof(WindowBoard), 4096) + 2 * slot_bytes;
  static constexpr Bytes place_offset = directory_bytes / 2;
  static_assert(sizeof(Directory) <= place_offset);
  static constexpr Bytes bytes_of_rank = directory_bytes + channel_count * channel_bytes;

  void connect(const Communicator& node, bool read_peers) {
    std::vector<PeerMemory::Place> places;
    for (const std::byte* const base : bases_) {
      places.push_back(
          *std::launder(reinterpret_cast<const PeerMemory::Place*>(base + place_offset)));
    }
    int usable = read_peers && peers_.connect(std::move(places)) ? 1 : 0;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &usable, 1, MPI_INT, MPI_MIN, node.handle()),
              "MPI_Allreduce");
    peers_.use(usable != 0);
  }

  WindowChannel& open(std::size_t number, const std::vector<int>& members) {
    if (channels_[number] == nullptr) {
      std::vector<std::byte*> places;
      for (const int rank : members) {
        std::byte* const base = bases_[static_cast<std::size_t>(rank)];
        places.push_back(base + directory_bytes + number * channel_bytes);
      }
      channels_[number] =
          std::make_unique<WindowChannel>(members, std::move(places), slot_bytes, peers_);
    }
    return *channels_[number];
  }

  PeerMemory peers_;
  SharedMemory memory_;
  std::vector<std::byte*> bases_;
  std::array<std::unique_ptr<WindowChannel>, channel_count> channels_;
};

/// The shared memory of all ranks, or nothing where messages are to be used. Throws OptionError if
/// the options ask for what these ranks cannot have. All ranks; collective, blocks.
inline std::unique_ptr<SharedWindow> open_window(const Communicator& ranks,
                                                 const ProgressOptions& options) {
  const Communicator node = ranks.shared_node();
  const Watch watch("MPI_Allreduce");
  int together = node.size() == ranks.size() ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &together, 1, MPI_INT, MPI_MIN, ranks.handle()),
            "MPI_Allreduce");
  if (!options.network.empty() && together == 0) {
    throw OptionError(
        "reef::comm: an emulated network needs all ranks on one machine.\n  why: messages carry "
        "their arrival on the machine's clock.\n  fix: start all ranks on one node.");
  }
  if (options.transport == Transport::window && together == 0) {
    throw OptionError("reef::comm: shared windows need all ranks on one node.");
  }
  const bool wanted = options.network.empty() && ranks.size() > 1 && together != 0 &&
                      options.transport.value_or(Transport::window) == Transport::window;
  if (!wanted) return nullptr;
  auto window = std::make_unique<SharedWindow>(ranks, options.read_peers);
  const SharedMemory& memory = window->memory();
  if (memory.usable()) return window;
  // All ranks are here together: they agreed on the failure.
  if (options.transport.has_value()) {
    throw MpiError("reef::comm: the ranks of this machine cannot share memory",
                   memory.why_not().empty() ? std::string(": another rank is refused")
                                            : ": " + memory.why_not(),
                   ".\n  fix: leave ProgressOptions::transport unset: messages then.");
  }
  if (memory.first_without()) {
    std::fprintf(
        stderr,
        "reef::comm: collectives go by messages.\n  why: the ranks of this machine cannot "
        "share memory: %s.\n  fix: if they are slow, let ranks see each other's /proc (one "
        "container, one user).\n",
        memory.why_not().c_str());
  }
  return nullptr;
}

}  // namespace reef::inline v0::comm::detail
