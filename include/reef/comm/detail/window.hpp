#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/options.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>

namespace reef::inline v0::comm::detail {

/// What one rank tells the others about one channel. Written by that rank alone; the counters only
/// rise, over all collectives of the channel, so that nothing is ever reset.
struct alignas(64) WindowBoard {
  std::atomic<std::uint64_t> arrived{0};  ///< rounds whose chunks are in my slots
  std::atomic<std::uint64_t> folded{0};   ///< rounds whose result is in my slots
  std::atomic<std::uint64_t> done{0};     ///< rounds of which I read nothing any more
  struct Label {
    Header header;
    std::array<char, 96> name{};
  };
  std::array<Label, 2> labels{};  ///< per slot: which operation it belongs to
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// One queue's part of the shared memory: a board and two slots of every rank.
class WindowChannel {
public:
  WindowChannel(std::vector<std::byte*> ranks, Bytes slot_bytes)
      : ranks_(std::move(ranks)), slot_bytes_(slot_bytes) {}

  [[nodiscard]] WindowBoard& board(int rank) const {
    return *std::launder(reinterpret_cast<WindowBoard*>(ranks_[static_cast<std::size_t>(rank)]));
  }
  [[nodiscard]] std::byte* slot(int rank, std::uint64_t round) const {
    return ranks_[static_cast<std::size_t>(rank)] + sizeof(WindowBoard) + (round % 2) * slot_bytes_;
  }
  [[nodiscard]] Bytes slot_bytes() const { return slot_bytes_; }

  /// Rounds of all collectives so far: where the next one starts. The same on all ranks.
  std::uint64_t rounds = 0;

private:
  std::vector<std::byte*> ranks_;
  Bytes slot_bytes_;
};

/// Memory that all ranks of one node share, cut into channels that queues claim by name.
///
/// | who    | constructor and destructor: all ranks of the communicator, collective, block            |
/// | memory | (board + 2 slots) * channels a rank; pages that no queue uses are never touched         |
class SharedWindow {
public:
  static constexpr std::size_t channel_count = 16;
  static constexpr Bytes slot_bytes = Bytes{256} << 10;

  explicit SharedWindow(const Communicator& node) : rank_(node.rank()) {
    const Bytes bytes = alignment + directory_bytes + channel_count * channel_bytes;
    std::byte* mine = nullptr;
    const int code = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL,
                                             node.handle(), &mine, &window_);
    if (code == MPI_SUCCESS) {
      mine = aligned(mine);
      // Fresh memory is zero or not, depending on the MPI.
      new (mine) Directory();
      for (std::size_t channel = 0; channel < channel_count; ++channel) {
        new (mine + directory_bytes + channel * channel_bytes) WindowBoard();
      }
    }
    int usable = code == MPI_SUCCESS ? 1 : 0;
    // Also the barrier behind which every board is known to be zero.
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &usable, 1, MPI_INT, MPI_MIN, node.handle()),
              "MPI_Allreduce");
    if (usable == 0) {
      throw MpiError("reef::comm: MPI_Win_allocate_shared could not get ", format_bytes(bytes),
                     " on every rank",
                     (code == MPI_SUCCESS ? std::string(".") : ": " + mpi_error_text(code)));
    }
    for (int rank = 0; rank < node.size(); ++rank) {
      MPI_Aint size = 0;
      int unit = 0;
      std::byte* base = nullptr;
      check_mpi(MPI_Win_shared_query(window_, rank, &size, &unit, &base), "MPI_Win_shared_query");
      bases_.push_back(aligned(base));
    }
  }
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;
  ~SharedWindow() {
    if (release && window_ != MPI_WIN_NULL && Environment::active()) MPI_Win_free(&window_);
  }

  /// The channel of the queue of that name: the first to ask claims it, for all ranks.
  WindowChannel& channel(std::string_view queue) {
    const std::uint64_t key = Hash().add(queue).value() | 1;
    Directory& directory = *std::launder(reinterpret_cast<Directory*>(bases_.front()));
    for (std::size_t i = 0; i < channel_count; ++i) {
      std::uint64_t found = 0;
      if (directory[i].compare_exchange_strong(found, key) || found == key) return open(i);
    }
    throw OptionError("reef::comm: more than ", channel_count,
                      " queues use collectives in shared memory, at '", queue,
                      "'.\n  fix: share queues, or set ProgressOptions::transport to "
                      "Transport::messages.");
  }

  /// Freeing is collective: false leaks the window, where not all ranks are there to free it.
  bool release = true;

private:
  using Directory = std::array<std::atomic<std::uint64_t>, channel_count>;
  static constexpr Bytes directory_bytes = 4096;
  static constexpr Bytes channel_bytes = round_up(sizeof(WindowBoard), 4096) + 2 * slot_bytes;
  static_assert(sizeof(Directory) <= directory_bytes);
  static constexpr Bytes alignment = 64;

  /// Segments begin anywhere in a page (Open MPI), but for all ranks at the same place of it.
  static std::byte* aligned(std::byte* base) {
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    return base + (round_up(address, alignment) - address);
  }

  WindowChannel& open(std::size_t number) {
    if (channels_[number] == nullptr) {
      std::vector<std::byte*> places;
      for (std::byte* const base : bases_) {
        places.push_back(base + directory_bytes + number * channel_bytes);
      }
      channels_[number] = std::make_unique<WindowChannel>(std::move(places), slot_bytes);
    }
    return *channels_[number];
  }

  int rank_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::byte*> bases_;
  std::array<std::unique_ptr<WindowChannel>, channel_count> channels_;
};

/// The shared memory of all ranks, or nothing where messages are to be used. Throws OptionError if
/// the options ask for what these ranks cannot have. All ranks; collective, blocks.
inline std::unique_ptr<SharedWindow> open_window(const Communicator& ranks,
                                                 const ProgressOptions& options) {
  const Communicator node = ranks.shared_node();
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
  try {
    return std::make_unique<SharedWindow>(ranks);
  } catch (const MpiError&) {
    // All ranks are here together: they agreed on the failure.
    if (options.transport.has_value()) throw;
    return nullptr;
  }
}

}  // namespace reef::inline v0::comm::detail
