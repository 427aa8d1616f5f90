#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include <reef/comm/all_to_all.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE AllToAllTask::AllToAllTask(std::string name, std::span<const std::byte> input,
                                       std::vector<std::int64_t> input_offsets,
                                       std::span<std::byte> output,
                                       std::vector<std::int64_t> output_offsets,
                                       std::optional<Group> group, Parts parts)
    : Task(Kind::all_to_all, std::move(name), std::move(group)),
      parts_(parts),
      input_offsets_(std::move(input_offsets)),
      output_offsets_(std::move(output_offsets)) {
  check_sides(this->group() ? this->group()->size() : static_cast<int>(output_offsets_.size()) - 1);
  bind(input, output);
}

REEF_INLINE void AllToAllTask::bind(std::span<const std::byte> input, std::span<std::byte> output) {
  detail::check_offsets(name(), input_offsets_, std::ssize(input));
  detail::check_offsets(name(), output_offsets_, std::ssize(output));
  input_ = input;
  output_ = output;
  used_.assign(output_offsets_.size() - 1, 0);
  for (std::size_t p = 0; p < used_.size(); ++p) used_[p] = max_for(static_cast<int>(p));
}

REEF_INLINE void AllToAllTask::set_used(int position, Bytes bytes) {
  const Bytes most = max_for(position);
  if (bytes > most || (bytes < most && length_ == Length::exact)) {
    throw OptionError("reef::comm: '", name(), "' is to send ", bytes, " of ", most,
                      " bytes to member ", position,
                      ".\n  fix: all of them, or fewer with Length::at_most on all ranks.");
  }
  used_[to_index(position)] = bytes;
}

REEF_INLINE Cost AllToAllTask::cost(int ranks, int rank,
                                    std::span<const std::int64_t> input_offsets, Bytes piece) {
  Cost cost;
  for (int position = 0; position < ranks; ++position) {
    if (position == rank) continue;
    const Bytes bytes = length(input_offsets, position);
    const std::uint64_t messages = pieces_of(bytes, piece);
    cost = cost + Cost{messages, bytes + messages * header_bytes, 0};
  }
  return cost;
}

REEF_INLINE void AllToAllTask::check_sides(int ranks) const {
  detail::check_ranks(name(), std::ssize(input_offsets_) - 1, parts_ == Parts::one ? 1 : ranks);
  detail::check_ranks(name(), std::ssize(output_offsets_) - 1, ranks);
}

REEF_INLINE void AllToAllTask::start(const detail::Station& station) {
  const int ranks = station.size();
  const int own = station.position;
  check_sides(ranks);
  const Bytes kept = used_[to_index(own)];
  if (max_for(own) != length(output_offsets_, own)) {
    throw OptionError("reef::comm: '", name(), "' keeps ", max_for(own),
                      " bytes of its input, but has ", length(output_offsets_, own),
                      " for them in its output.\n  fix: own parts of one length in both.");
  }
  count_in(station.sent);
  members_.assign(station.members.begin(), station.members.end());
  pending_ = 0;
  moved_ = false;
  peers_.assign(to_index(ranks), {});
  for (int position = 0; position < ranks; ++position) {
    if (position == own) continue;
    Peer& peer = peers_[to_index(position)];
    peer.to_send = pieces_of(max_for(position), station.piece_bytes);
    peer.to_receive = pieces_of(length(output_offsets_, position), station.piece_bytes);
    pending_ += peer.to_send + peer.to_receive;
  }
  if (headers_.size() < pending_) headers_.resize(pending_);
  // Each begins with its neighbour, so that not all send to one.
  Header* next = headers_.data();
  for (int step = 1; step < ranks; ++step)
    next = receive(station, (own + ranks - step) % ranks, next);
  for (int step = 1; step < ranks; ++step) next = send(station, (own + step) % ranks, next);
  if (kept > 0) {
    std::memcpy(output_.data() + output_offsets_[to_index(own)], input_.data() + begin_for(own),
                kept);
  }
}

// Pieces are numbered by how many are behind them: the first says how long the
// whole is.
REEF_INLINE Header* AllToAllTask::receive(const detail::Station& station, int position,
                                          Header* headers) {
  const std::uint64_t pieces = peers_[to_index(position)].to_receive;
  const Bytes all = length(output_offsets_, position);
  std::byte* const place = output_.data() + output_offsets_[to_index(position)];
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const Bytes begin = piece * station.piece_bytes;
    const Bytes bytes = (std::min)(station.piece_bytes, all - begin);
    const Header expected = header(station, static_cast<std::uint32_t>(pieces - 1 - piece), bytes);
    station.wire.receive(*this, token(position, true), station.rank_of(position), station.channel,
                         kind(), expected, *headers++, place + begin, length_);
  }
  return headers;
}

REEF_INLINE Header* AllToAllTask::send(const detail::Station& station, int position,
                                       Header* headers) {
  const std::uint64_t pieces = peers_[to_index(position)].to_send;
  const Bytes all = used_[to_index(position)];
  const std::byte* const place = input_.data() + begin_for(position);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const Bytes begin = piece * station.piece_bytes;
    const Bytes bytes = begin < all ? (std::min)(station.piece_bytes, all - begin) : 0;
    *headers = header(station, static_cast<std::uint32_t>(pieces - 1 - piece), bytes);
    station.wire.send(*this, token(position, false), station.rank_of(position), station.channel,
                      kind(), *headers++, place + begin);
  }
  return headers;
}

REEF_INLINE void AllToAllTask::delivered(std::uint64_t token) {
  Peer& peer = peers_[token / 2];
  if (token % 2 == 1) {
    --peer.to_receive;
    peer.seen = true;
  } else {
    --peer.to_send;
  }
  --pending_;
  moved_ = true;
}

REEF_INLINE void AllToAllTask::missing(std::vector<int>& ranks) const {
  ranks.clear();
  for (const bool absent : {true, false}) {
    for (std::size_t position = 0; position < peers_.size(); ++position) {
      const Peer& peer = peers_[position];
      const bool owes = peer.to_receive > 0 && (!absent || !peer.seen);
      if (owes || (!absent && peer.to_send > 0)) ranks.push_back(members_[position]);
    }
    if (!ranks.empty()) return;
  }
}

REEF_INLINE Bytes AllToAllTask::carried() const {
  if (parts_ == Parts::one) return *std::max_element(used_.begin(), used_.end());
  return std::accumulate(used_.begin(), used_.end(), Bytes{0});
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
