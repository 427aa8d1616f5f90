#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::comm {

/// The network that is emulated: one full-duplex FIFO link for every ordered pair of ranks, and where
/// `with_uplinks` says so, an uplink and a downlink of each rank, which all its links share.
///
///     up      = max(asked, uplink free) + bytes / uplink
///     left    = max(up, max(asked, link free) + bytes / bandwidth)
///     reaches = left + latency - bytes / min(uplink, bandwidth)
///     arrival = max(left + latency, max(reaches, downlink free) + bytes / downlink)
///
/// Without uplinks, arrival = max(asked, link free) + bytes / bandwidth + latency. The same as of
/// schedule::simulate.
///
/// | asked              | when the task was submitted, if nothing kept it from starting; else when it |
/// |                    | sends                                                                       |
/// | latency, bandwidth | (P, P) row-major, [from * P + to]; the diagonal is never read              |
/// | bytes              | of the whole message, header included                                       |
/// | empty              | no emulation: messages take what they take                                  |
/// | uplink, downlink   | busy until up and arrival; (P), infinite where there are none                |
/// | errors             | OptionError for sizes that differ, a latency below 0, a bandwidth not above 0 |
class NetworkShape {
public:
  NetworkShape() = default;

  NetworkShape(int ranks, std::vector<Seconds> latencies, std::vector<double> bytes_per_second)
      : ranks_(ranks), latency_(std::move(latencies)), bandwidth_(std::move(bytes_per_second)) {
    const std::size_t cells =
        ranks < 0 ? 0 : static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
    if (ranks < 1 || latency_.size() != cells || bandwidth_.size() != cells) {
      throw OptionError("reef::comm::NetworkShape: ", ranks, " ranks need ", cells,
                        " latencies and bandwidths, not ", latency_.size(), " and ",
                        bandwidth_.size(), ".");
    }
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        if (from == to) continue;
        const Seconds delay = latency_[cell(from, to)];
        const double rate = bandwidth_[cell(from, to)];
        const bool usable = within(delay, 0, 1e6) && is_finite(rate) && rate >= 1;
        if (!usable) {
          throw OptionError("reef::comm::NetworkShape: the link from ", from, " to ", to,
                            " has latency ", delay, " s and bandwidth ", rate,
                            " B/s.\n  fix: latencies from 0 to 1e6 s, bandwidths from 1 B/s.");
        }
      }
    }
  }

  /// The same link between all pairs.
  static NetworkShape uniform(int ranks, Seconds latency, double bytes_per_second) {
    const auto cells = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
    return {ranks, std::vector<Seconds>(cells, latency),
            std::vector<double>(cells, bytes_per_second)};
  }

  /// The same links between machines whose connection all their links share: bytes per second of each
  /// rank, sent and received.
  [[nodiscard]] NetworkShape with_uplinks(std::vector<double> up, std::vector<double> down) const {
    const auto wanted = static_cast<std::size_t>(ranks_);
    const auto possible = [](double rate) { return is_finite(rate) && rate > 0; };
    if (up.size() != wanted || down.size() != wanted ||
        !std::all_of(up.begin(), up.end(), possible) ||
        !std::all_of(down.begin(), down.end(), possible)) {
      throw OptionError("reef::comm::NetworkShape: ", ranks_,
                        " ranks need as many uplinks and downlinks, each above 0 B/s.");
    }
    NetworkShape shape = *this;
    shape.uplink_ = std::move(up);
    shape.downlink_ = std::move(down);
    return shape;
  }

  [[nodiscard]] bool has_uplinks() const { return !uplink_.empty(); }
  /// Bytes per second of all that a rank sends, or receives. Only where there are uplinks.
  [[nodiscard]] double uplink(int rank) const { return uplink_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] double downlink(int rank) const {
    return downlink_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] bool empty() const { return ranks_ == 0; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Seconds latency(int from, int to) const { return latency_[cell(from, to)]; }
  /// Bytes per second.
  [[nodiscard]] double bandwidth(int from, int to) const { return bandwidth_[cell(from, to)]; }

private:
  [[nodiscard]] std::size_t cell(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(to);
  }

  int ranks_ = 0;
  std::vector<Seconds> latency_;
  std::vector<double> bandwidth_;
  std::vector<double> uplink_, downlink_;  // none, or of each rank
};

}  // namespace reef::inline v0::comm
