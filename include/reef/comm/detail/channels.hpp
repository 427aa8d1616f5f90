#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include <reef/comm/error.hpp>
#include <reef/comm/meter.hpp>
#include <reef/comm/mpi.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// The largest tag that MPI takes.
int largest_tag();

/// Tags of one rank's messages to another: its channels, by 64 bits of what they are for, in the order in which it
/// asks.
class ChannelNumbers {
public:
  static constexpr int first = 2;  ///< below: what tells of them

  struct Number {
    int tag = 0;
    bool is_new = false;
  };

  /// The channel's tag. Throws OptionError where `largest` leaves none.
  Number of(std::uint64_t channel, int largest);

private:
  std::unordered_map<std::uint64_t, int> tags_;
};

/// The MPI tags of a rank's messages: who sends numbers its channels, and tells the other which has what number. So no
/// two channels share a tag, whatever their names, and nobody waits for an agreement: a message may leave before its
/// number is known there.
///
/// | who  | the progress thread only; never blocks                                             |
/// | wire | 16 bytes for each channel to each rank, once, in the communicator of signs of life |
class Channels {
public:
  /// `told`: the communicator in which ranks tell each other.
  Channels(MPI_Comm told, int size, LiveMeter& meter, int largest = largest_tag())
      : comm_(told),
        meter_(&meter),
        largest_(largest),
        to_(static_cast<std::size_t>(size)),
        from_(static_cast<std::size_t>(size)) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;
  ~Channels();

  /// The tag of messages to `peer`, who is told where it is new.
  int tag_to(int peer, std::uint64_t channel);

  /// The tag of messages from `peer`, or nothing until it has told: poll() says when.
  std::optional<int> tag_from(int peer, std::uint64_t channel);

  /// Hears what peers tell, as long as something is asked of them. Calls known(peer, channel, tag) for what was asked.
  template <class Known>
  void poll(Known&& known) {
    for (std::size_t i = 0; i < asked_.size();) {
      Incoming& peer = from_[static_cast<std::size_t>(asked_[i])];
      const auto told = hear(peer);
      if (!told) {
        ++i;
        continue;
      }
      if (std::erase(peer.asked, told->channel) > 0) known(asked_[i], told->channel, told->tag);
      if (!peer.asked.empty()) {
        listen(asked_[i]);
      } else {
        asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    has_told_all();
  }

  /// Asks nothing any more.
  void cancel();

  /// Whether all that was told has left. What has not when this ends stays in memory, as MPI may still read it.
  bool has_told_all();

private:
  static constexpr int tag = 1;  // of what is told; signs of life have 0

  struct Told {
    std::uint64_t channel = 0;
    std::int32_t tag = 0;
    std::uint32_t reserved = 0;
  };
  static_assert(sizeof(Told) == 16);

  struct Telling {
    Told told;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  struct Incoming {
    std::unordered_map<std::uint64_t, int> tags;
    std::vector<std::uint64_t> asked;  // not known yet
    Told told;
    MPI_Request request = MPI_REQUEST_NULL;  // while something is asked
  };

  void listen(int peer);
  std::optional<Told> hear(Incoming& peer);
  static bool has_left(Telling& telling);

  MPI_Comm comm_;
  LiveMeter* meter_;
  int largest_;
  std::vector<ChannelNumbers> to_;
  std::vector<Incoming> from_;
  std::vector<int> asked_;  // peers of whom something is
  std::deque<Telling> telling_;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/channels.ipp>
#endif
