#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include <reef/comm/detail/start.hpp>
#include <reef/comm/detail/window.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE WindowBoard::Label label_of(const Header& prototype, const ExchangePlan& plan,
                                        std::string_view name) {
  WindowBoard::Label label;
  label.header = prototype;
  const Bytes total = static_cast<Bytes>(plan.offsets.back()) * plan.element;
  label.header.bytes = static_cast<std::uint32_t>(total);
  label.header.piece = static_cast<std::uint32_t>(total >> 32);
  std::copy_n(name.begin(), (std::min)(name.size(), label.name.size() - 1), label.name.begin());
  Hash hash;
  for (const std::int64_t offset : plan.offsets) hash.add(offset);
  label.offsets = hash.value();
  return label;
}

REEF_INLINE WindowBoard& WindowChannel::board(int position) const {
  return *std::launder(reinterpret_cast<WindowBoard*>(places_[static_cast<std::size_t>(position)]));
}

REEF_INLINE std::byte* WindowChannel::slot(int position, std::uint64_t round) const {
  return places_[static_cast<std::size_t>(position)] + sizeof(WindowBoard) +
         (round % 2) * slot_bytes_;
}

REEF_INLINE bool WindowChannel::all_at(std::atomic<std::uint64_t> WindowBoard::*counter,
                                       std::uint64_t wanted) const {
  return std::all_of(places_.begin(), places_.end(), [&](const std::byte* base) {
    const auto* board = std::launder(reinterpret_cast<const WindowBoard*>(base));
    return (board->*counter).load(std::memory_order_acquire) >= wanted;
  });
}

REEF_INLINE void WindowChannel::behind(std::vector<int>& ranks, int own,
                                       std::atomic<std::uint64_t> WindowBoard::*counter,
                                       std::uint64_t wanted) const {
  ranks.clear();
  for (int position = 0; position < static_cast<int>(members_.size()); ++position) {
    if (position == own) continue;
    if ((board(position).*counter).load(std::memory_order_acquire) < wanted) {
      ranks.push_back(members_[static_cast<std::size_t>(position)]);
    }
  }
}

REEF_INLINE void WindowChannel::check_label(int position, std::size_t slot,
                                            const WindowBoard::Label& mine, Kind kind) const {
  const WindowBoard::Label& found = board(position).labels[slot];
  const Header& want = mine.header;
  const bool same = found.header.magic == want.magic && found.header.version == want.version &&
                    found.header.operation == want.operation &&
                    found.header.sequence == want.sequence && found.header.codec == want.codec &&
                    found.header.bytes == want.bytes && found.header.piece == want.piece;
  if (same && found.offsets == mine.offsets) return;
  std::array<char, 96> name = found.name;
  name.back() = '\0';
  throw Mismatch{
      members_[static_cast<std::size_t>(position)], kind, want, found.header, 0, name.data(), same};
}

REEF_INLINE SharedWindow::SharedWindow(const Communicator& node, bool read_peers)
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

REEF_INLINE WindowChannel& SharedWindow::channel(std::string_view queue, const Group& group) {
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

REEF_INLINE void SharedWindow::connect(const Communicator& node, bool read_peers) {
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

REEF_INLINE WindowChannel& SharedWindow::open(std::size_t number, const std::vector<int>& members) {
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

REEF_INLINE std::unique_ptr<SharedWindow> open_window(const Communicator& ranks,
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

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
