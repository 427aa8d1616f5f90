#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/channels.hpp>
#include <reef/comm/detail/clock.hpp>
#include <reef/comm/detail/receiver.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// A message that is not the one that was expected; the progress thread turns it into an MpiError.
struct Mismatch {
  int peer = 0;
  Kind kind = Kind::control;
  Header expected;
  Header found;         ///< magic 0: no header that can be read
  Bytes received = 0;   ///< bytes of the message, header included
  std::string name;     ///< what was found, where the transport tells more than its number
  bool shards = false;  ///< the same but for the offsets of the shards
  Fault fault = Fault::unexpected;
};

/// All messages in flight of one rank: posts them, tests them, holds them back on shaped links.
///
/// Header and payload travel as one message, straight from and into the caller's memory. It is delivered
/// when all that its header says has been compared with what was expected, and a transfer's payload with
/// its checksum. A message that is longer is cut off by MPI, never written past its buffer. On a shaped link
/// the sender books the link and writes the arrival into the header; the data moves at once, and
/// the receiver does not see it before that time. So the real transfer hides in the emulated one,
/// and whoever waits sleeps until a time that is known.
///
/// A network is emulated as one full-duplex FIFO link for every ordered pair of ranks and, where it has uplinks, an
/// uplink and a downlink of each rank, which all its links share:
///
///     up      = max(asked, uplink free) + bytes / uplink
///     left    = max(up, max(asked, link free) + bytes / rate)
///     reaches = left + latency - bytes / min(uplink, rate)
///     arrival = max(left + latency, max(reaches, downlink free) + bytes / downlink)
///
/// Without uplinks, arrival = max(asked, link free) + bytes / rate + latency. schedule::simulate computes with the same
/// formulas.
///
/// | asked            | when the task was submitted, if nothing kept it from starting; else when it sends |
/// | bytes            | of the whole message, header included                                             |
/// | uplink, downlink | busy until up and arrival; infinite where there are none                          |
class Wire {
public:
  /// `told`: where ranks tell each other which tag a channel has; null: in `comm` too.
  Wire(MPI_Comm comm, int rank, int size, profile::Network shape, LiveMeter& meter,
       bool checksums = true, MPI_Comm told = MPI_COMM_NULL)
      : comm_(comm),
        rank_(rank),
        shape_(std::move(shape)),
        meter_(&meter),
        checksums_(checksums),
        channels_(told == MPI_COMM_NULL ? comm : told, size, meter),
        link_free_(static_cast<std::size_t>(size), 0),
        heard_(static_cast<std::size_t>(size), now_ns()) {}

  /// What is sent from now on was asked for at `time`, of now_ns(), though this thread had to wake up
  /// first: on shaped links it leaves then. 0: it is asked for when it is sent.
  void asked_at(std::int64_t time) { asked_ = time; }

  /// Sends `header` and header.bytes bytes of `payload`; both live until delivered(token). Messages of one channel, any
  /// number that both ends know it by, meet in order; those of others do not meet them.
  void send(Receiver& owner, std::uint64_t token, int peer, std::uint64_t channel, Kind kind,
            Header& header, const void* payload);

  /// Receives the message that `expected` describes; header and payload live until
  /// delivered(token), and header.bytes of it have come then. Throws Mismatch out of poll() if another message comes.
  void receive(Receiver& owner, std::uint64_t token, int peer, std::uint64_t channel, Kind kind,
               const Header& expected, Header& header, void* payload,
               Length length = Length::exact);

  /// Tests everything once. True if something was delivered.
  bool poll();

  /// When the next message that is already here may be seen, or one of this rank's has left; never_ns if
  /// there is none. Of those within `together` ns of it, the time of the last that is received, or if
  /// none is, of the last that leaves.
  [[nodiscard]] std::int64_t next_arrival(std::int64_t together) const;

  /// When the last of the `messages` that `receiver` awaits may be seen, if all of them are here already;
  /// else never_ns.
  [[nodiscard]] std::int64_t last_arrival(const Receiver& receiver, std::uint64_t messages) const;

  /// How long, in ns, it does no harm not to look at what MPI has yet to move.
  ///
  /// | nothing on its way | 4 ms: MPI may have kept a part of what it calls sent                     |
  /// | shaped links       | at most 1 ms, and so often within the time of every message that MPI can |
  /// |                    | have moved it by the time at which it may be seen                        |
  /// | else               | 0                                                                        |
  [[nodiscard]] std::int64_t quiet() const;

  /// How long, in ns, a nap may last so that what is sent meanwhile over a shaped link is still seen in time: as many
  /// looks as quiet() says, but naps of 1 ms at least. never_ns where links are not shaped.
  [[nodiscard]] std::int64_t longest_nap() const;

  /// When the last message is through the emulated links that is on them now; 0: there is none.
  [[nodiscard]] std::int64_t busy_until() const;

  /// Messages of this rank that are leaving by an emulated link: those to one peer.
  struct Leaving {
    int peer = 0;
    Bytes bytes = 0;
    std::int64_t until = 0;  ///< 0: there are none
  };
  /// Those of which the last leaves last.
  [[nodiscard]] Leaving leaving() const;

  /// When the last message from `peer` came in.
  [[nodiscard]] std::int64_t heard(int peer) const {
    return heard_[static_cast<std::size_t>(peer)];
  }

  [[nodiscard]] bool shaped() const { return !shape_.empty(); }

  /// Takes back receives that nobody answered and gives the rest `patience_ns` to end. What is
  /// still on its way after that may write to its buffer until the process ends.
  void cancel(std::int64_t patience_ns);

private:
  // MPI moves a long message in shared memory by fragments, after agreeing with the receiver: so many looks.
  static constexpr Bytes fragment = 32 << 10;
  static constexpr Bytes handshake = 3;

  /// The time of the shortest message, by the looks that it takes.
  [[nodiscard]] Seconds look_time() const;

  struct Slot {
    Receiver* owner;
    std::uint64_t token;
    int peer;
    Kind kind;
    bool receive;
    const Header* header;
    Header expected;
    std::int64_t not_before;
    const void* payload = nullptr;  ///< of what is received
    bool reaches = false;  ///< not_before is when it reaches this rank's downlink
    Length length = Length::exact;
  };

  /// A receive of a channel whose tag the peer has not told yet.
  struct Waiting {
    Slot slot;
    std::uint64_t channel;
    Header* header;
    void* payload;
  };

  /// Header and payload as one MPI datatype; plain bytes where they are neighbours.
  struct Layout {
    Layout(Header& header, void* payload);
    Layout(const Layout&) = delete;
    Layout& operator=(const Layout&) = delete;
    // MPI keeps a freed type until the messages that use it are done.
    ~Layout() {
      if (own) MPI_Type_free(&type);
    }

    void* address = MPI_BOTTOM;
    int count = 1;
    MPI_Datatype type = MPI_BYTE;
    bool own = false;
  };

  static bool later(const Slot& a, const Slot& b) { return a.not_before > b.not_before; }

  void post(const Slot& slot, MPI_Request request);

  void post_receive(const Slot& slot, Header& header, void* payload, int tag);

  /// Posts what waits for the tag of a channel, in order.
  void post_waiting(int peer, std::uint64_t channel, int tag);

  /// No message of this rank is on its way, in or out.
  [[nodiscard]] bool idle() const { return requests_.empty() && waiting_.empty(); }

  void collect(bool with_errors);

  void delay(const Slot& slot);

  /// Takes the message's place in this rank's uplink and its link. When it has left.
  std::int64_t book(int peer, Bytes bytes);

  /// The same message, to be seen when its first byte reaches the downlink.
  [[nodiscard]] Slot reaching(Slot slot) const;

  /// Takes its place in the downlink, after those that have reached it before. To be seen when it has
  /// arrived.
  Slot through_downlink(Slot slot);

  static std::span<const std::byte> bytes_at(const void* data, Bytes bytes) {
    return {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)};
  }

  [[nodiscard]] bool checks(Kind kind) const { return checksums_ && has_checksum(kind); }

  void check_received(const Slot& slot, const MPI_Status& status, int code) const;

  void compact();

  MPI_Comm comm_;
  int rank_;
  profile::Network shape_;
  LiveMeter* meter_;
  bool checksums_;
  Channels channels_;
  std::vector<Waiting> waiting_;
  std::vector<std::int64_t> link_free_;
  std::int64_t uplink_free_ = 0;
  std::int64_t downlink_free_ = 0;
  std::int64_t asked_ = 0;
  std::vector<std::int64_t> heard_;
  std::vector<MPI_Request> requests_;
  std::vector<Slot> slots_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<Slot> delayed_;
  std::vector<Slot> ready_;
  int done_ = 0;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/wire.ipp>
#endif
