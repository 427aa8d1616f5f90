#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/detail/standing.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>
#include <reef/comm/mpi.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

enum class Signal : std::uint32_t { heartbeat, farewell, failure, dump_request, dump_reply };

/// Small messages between the progress threads: signs of life, farewells, failures and dumps.
///
/// | who     | the progress thread only; never blocks                                               |
/// | traffic | one heartbeat per peer and period; a peer that does not take it gets no second one   |
/// | wire    | 24 bytes and the text, at most `text_limit` bytes of it; that of a sign of life is a |
/// |         | Standing                                                                             |
class Control {
public:
  static constexpr std::size_t text_limit = 3072;

  Control(MPI_Comm comm, int rank, int size, LiveMeter& meter)
      : comm_(comm),
        rank_(rank),
        meter_(&meter),
        beating_(static_cast<std::size_t>(size), nullptr),
        heard_(static_cast<std::size_t>(size), now_ns()),
        activity_(static_cast<std::size_t>(size), 0),
        active_since_(static_cast<std::size_t>(size), now_ns()),
        standings_(static_cast<std::size_t>(size)),
        left_(static_cast<std::size_t>(size), 0) {
    if (size > 1) listen();
  }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control();

  /// Sends a sign of life to every peer that took the last one, and what this rank is at.
  void heartbeat(std::uint64_t activity, const Standing& standing);

  void send(int peer, Signal signal, std::string_view text, std::uint64_t activity) {
    post(peer, signal, text, activity);
  }
  void broadcast(Signal signal, std::string_view text, std::uint64_t activity);

  /// Everything that came in: handle(peer, signal, text).
  template <class Handle>
  void poll(Handle&& handle) {
    int done = 0;
    while (inbox_request_ != MPI_REQUEST_NULL) {
      MPI_Status status;
      check_mpi(MPI_Test(&inbox_request_, &done, &status), "MPI_Test");
      if (done == 0) break;
      int received = 0;
      MPI_Get_count(&status, MPI_BYTE, &received);
      const int peer = status.MPI_SOURCE;
      Frame frame;
      if (received >= static_cast<int>(sizeof(Frame))) {
        std::memcpy(&frame, inbox_.data(), sizeof(Frame));
      }
      const std::string text(
          inbox_.data() + sizeof(Frame),
          static_cast<std::size_t>((std::max)(received - static_cast<int>(sizeof(Frame)), 0)));
      listen();
      if (frame.magic != Frame::number) continue;
      note(peer, frame, text);
      handle(peer, frame.signal, text);
    }
  }

  /// True once all that was sent has left this rank.
  bool flushed();

  [[nodiscard]] std::int64_t heard(int peer) const { return heard_[to_index(peer)]; }
  /// Since when the peer reports the same activity and does not work.
  [[nodiscard]] std::int64_t active_since(int peer) const { return active_since_[to_index(peer)]; }
  [[nodiscard]] bool left(int peer) const { return left_[to_index(peer)] != 0; }
  /// What the ranks are at, as they said last; of this one, as heartbeat() was told.
  [[nodiscard]] const std::vector<Standing>& standings() const { return standings_; }
  [[nodiscard]] bool all_left() const;

  /// After a pause of this very process its clocks say nothing about the others.
  void forgive();

private:
  struct Frame {
    static constexpr std::uint32_t number =
        std::uint32_t{Header::magic_number} << 8 | Header::current_version;

    std::uint32_t magic = 0;
    Signal signal = Signal::heartbeat;
    std::uint64_t activity = 0;
    std::uint64_t reserved = 0;
  };
  static_assert(sizeof(Frame) == 24);

  struct Outgoing {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<char> bytes;
  };

  [[nodiscard]] int size() const { return static_cast<int>(heard_.size()); }
  static std::size_t to_index(int peer) { return static_cast<std::size_t>(peer); }

  void listen();

  bool settled(Outgoing& message);

  Outgoing& post(int peer, Signal signal, std::string_view text, std::uint64_t activity);

  void note(int peer, const Frame& frame, std::string_view text);

  /// When a rank, this one too, did something last.
  void note_activity(int rank, std::uint64_t activity, bool works);

  MPI_Comm comm_;
  int rank_;
  LiveMeter* meter_;
  MPI_Request inbox_request_ = MPI_REQUEST_NULL;
  std::array<char, sizeof(Frame) + text_limit> inbox_{};
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
  std::vector<Outgoing*> beating_;
  std::vector<std::int64_t> heard_;
  std::vector<std::uint64_t> activity_;
  std::vector<std::int64_t> active_since_;
  std::vector<Standing> standings_;
  std::vector<char> left_;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/control.ipp>
#endif
