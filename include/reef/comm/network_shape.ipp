#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <reef/comm/network_shape.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE NetworkShape::NetworkShape(int ranks, std::vector<Seconds> latencies,
                                       std::vector<double> bytes_per_second)
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

REEF_INLINE NetworkShape NetworkShape::uniform(int ranks, Seconds latency,
                                               double bytes_per_second) {
  const auto cells = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return {ranks, std::vector<Seconds>(cells, latency),
          std::vector<double>(cells, bytes_per_second)};
}

REEF_INLINE NetworkShape NetworkShape::with_uplinks(std::vector<double> up,
                                                    std::vector<double> down) const {
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

REEF_INLINE std::size_t NetworkShape::cell(int from, int to) const {
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
         static_cast<std::size_t>(to);
}

REEF_INLINE profile::Network NetworkShape::links() const {
  profile::Network network{ranks_, {}, {}, {}};
  for (int from = 0; from < ranks_; ++from) {
    for (int to = 0; to < ranks_; ++to) {
      network.latencies.push_back(from == to ? 0 : latency(from, to));
      network.rates.push_back(from == to ? 1e18 : (std::min)(bandwidth(from, to), 1e18));
    }
  }
  return network;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
