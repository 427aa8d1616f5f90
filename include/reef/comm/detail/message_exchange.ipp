#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <reef/comm/detail/message_exchange.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void MessageExchange::start(const Station& station, const ExchangePlan& plan,
                                        const Header& prototype, Kind kind,
                                        std::string_view /*name*/) {
  count_in(station.sent);
  station_ = &station;
  plan_ = &plan;
  prototype_ = prototype;
  kind_ = kind;
  pieces_ = {&plan, piece_elements(station.piece_bytes, plan.element)};
  own_ = pieces_.of(station.position);
  produced_ = 0;
  remaining_ = 0;
  moved_ = false;
  // A shaped link must see everything that is to go over it, or it would idle for a latency.
  send_limit_ = station.wire.shaped() ? (std::numeric_limits<std::int64_t>::max)() / 2 : 16;
  peers_.resize(static_cast<std::size_t>(station.size()));
  sources_.resize(static_cast<std::size_t>(station.size()));
  for (int position = 0; position < station.size(); ++position) {
    if (position != station.position) prepare(position);
  }
  if (plan.reduce) prepare_staging();
  pump_all();
}

REEF_INLINE bool MessageExchange::advance() {
  bool moved = std::exchange(moved_, false);
  if (produced_ < own_ && all_chunks_here()) {
    produce(produced_);
    ++produced_;
    moved = true;
  }
  if (moved) pump_all();
  return moved;
}

REEF_INLINE void MessageExchange::missing(std::vector<int>& ranks) const {
  ranks.clear();
  for (const bool absent : {true, false}) {
    for (int position = 0; position < station_->size(); ++position) {
      if (position == station_->position) continue;
      const Peer& peer = peers_[static_cast<std::size_t>(position)];
      const bool owes = peer.to_receive > 0 && (!absent || !peer.seen);
      if (owes || (!absent && peer.to_send > 0)) ranks.push_back(station_->rank_of(position));
    }
    if (!ranks.empty()) return;
  }
}

REEF_INLINE std::uint64_t MessageExchange::token(Part part, int peer, std::int64_t piece) {
  return (static_cast<std::uint64_t>(part) << 62) | (static_cast<std::uint64_t>(peer) << 40) |
         static_cast<std::uint64_t>(piece);
}

REEF_INLINE void MessageExchange::prepare(int position) {
  Peer& peer = peers_[to_index(position)];
  const std::int64_t theirs = pieces_.of(position);
  peer.chunk_out = peer.chunk_in = peer.shard_out = peer.shard_in = 0;
  peer.chunk_out_done = peer.shard_out_done = peer.shard_in_done = 0;
  peer.to_send = (plan_->reduce ? theirs : 0) + (plan_->gather ? own_ : 0);
  peer.to_receive = (plan_->reduce ? own_ : 0) + (plan_->gather ? theirs : 0);
  peer.seen = false;
  remaining_ += peer.to_send + peer.to_receive;
  peer.chunk_left.assign(to_index(theirs), 0);
  peer.chunk_here.assign(to_index(own_), 0);
  if (plan_->reduce) peer.chunk_out_headers.resize(to_index(theirs));
  if (plan_->gather) {
    peer.shard_out_headers.resize(to_index(own_));
    peer.shard_in_headers.resize(to_index(theirs));
  }
}

REEF_INLINE void MessageExchange::prepare_staging() {
  const std::int64_t longest = (std::min)(pieces_.elements, plan_->length(station_->position));
  slot_bytes_ = header_bytes + round_up(static_cast<Bytes>(longest) * plan_->element, 64);
  const auto slot_count = static_cast<Bytes>(station_->size() - 1) * static_cast<Bytes>(depth);
  const Bytes wanted = own_ == 0 ? 0 : slot_count * slot_bytes_ + 64;
  if (station_->staging->size() < wanted) station_->staging->resize(wanted);
  const auto address = reinterpret_cast<std::uintptr_t>(station_->staging->data());
  staging_ = station_->staging->data() + (round_up(address, 64) - address);
}

REEF_INLINE Header& MessageExchange::slot_header(int position, std::int64_t piece) const {
  const auto row = static_cast<Bytes>(position < station_->position ? position : position - 1);
  const Bytes slot = row * static_cast<Bytes>(depth) + static_cast<Bytes>(piece % depth);
  return *reinterpret_cast<Header*>(staging_ + slot * slot_bytes_);
}

REEF_INLINE Header MessageExchange::header(int shard, std::int64_t piece) const {
  Header header = prototype_;
  header.piece = static_cast<std::uint32_t>(piece);
  header.bytes = static_cast<std::uint32_t>(pieces_.bytes(shard, piece));
  return header;
}

REEF_INLINE void MessageExchange::pump_all() {
  // Starting behind oneself spreads the first messages over all receivers.
  for (int step = 1; step < station_->size(); ++step)
    pump((station_->position + step) % station_->size());
}

REEF_INLINE void MessageExchange::pump(int position) {
  Peer& peer = peers_[to_index(position)];
  const std::int64_t theirs = pieces_.of(position);
  const int rank = station_->rank_of(position);
  const int mine = station_->position;
  const std::uint64_t chunks = station_->channel;
  const std::uint64_t shards = station_->channel + 1;
  if (plan_->reduce) {
    for (; peer.chunk_in < own_ && peer.chunk_in < produced_ + depth; ++peer.chunk_in) {
      station_->wire.receive(*this, token(Part::chunk_in, position, peer.chunk_in), rank, chunks,
                             kind_, header(mine, peer.chunk_in),
                             slot_header(position, peer.chunk_in),
                             slot_payload(position, peer.chunk_in));
    }
    for (; peer.chunk_out < theirs && peer.chunk_out < peer.chunk_out_done + send_limit_;
         ++peer.chunk_out) {
      Header& head = peer.chunk_out_headers[to_index(peer.chunk_out)];
      head = header(position, peer.chunk_out);
      station_->wire.send(*this, token(Part::chunk_out, position, peer.chunk_out), rank, chunks,
                          kind_, head, plan_->input_at(pieces_.at(position, peer.chunk_out)));
    }
  }
  if (plan_->gather) {
    // In place, a result may only come in where the chunk that made it has left.
    const std::int64_t open = plan_->reduce ? peer.chunk_out_done : theirs;
    for (; peer.shard_in < open && peer.shard_in < peer.shard_in_done + 16; ++peer.shard_in) {
      station_->wire.receive(*this, token(Part::shard_in, position, peer.shard_in), rank, shards,
                             kind_, header(position, peer.shard_in),
                             peer.shard_in_headers[to_index(peer.shard_in)],
                             plan_->output_at(pieces_.at(position, peer.shard_in)));
    }
    for (; peer.shard_out < produced_ && peer.shard_out < peer.shard_out_done + send_limit_;
         ++peer.shard_out) {
      Header& head = peer.shard_out_headers[to_index(peer.shard_out)];
      head = header(mine, peer.shard_out);
      station_->wire.send(*this, token(Part::shard_out, position, peer.shard_out), rank, shards,
                          kind_, head, plan_->output_at(pieces_.at(mine, peer.shard_out)));
    }
  }
}

REEF_INLINE void MessageExchange::delivered(std::uint64_t token) {
  const auto part = static_cast<Part>(token >> 62);
  Peer& peer = peers_[to_index(static_cast<std::int64_t>((token >> 40) & 0x3fffff))];
  const auto piece = static_cast<std::size_t>(token & 0xffffffffff);
  --remaining_;
  moved_ = true;
  if (part == Part::chunk_in || part == Part::shard_in) {
    --peer.to_receive;
    peer.seen = true;
  } else {
    --peer.to_send;
  }
  switch (part) {
    case Part::chunk_in: peer.chunk_here[piece] = 1; break;
    case Part::shard_in: ++peer.shard_in_done; break;
    case Part::shard_out: ++peer.shard_out_done; break;
    case Part::chunk_out:
      peer.chunk_left[piece] = 1;
      while (to_index(peer.chunk_out_done) < peer.chunk_left.size() &&
             peer.chunk_left[to_index(peer.chunk_out_done)] != 0) {
        ++peer.chunk_out_done;
      }
      break;
  }
}

REEF_INLINE bool MessageExchange::all_chunks_here() const {
  if (!plan_->reduce) return true;
  for (int position = 0; position < station_->size(); ++position) {
    if (position == station_->position) continue;
    if (peers_[to_index(position)].chunk_here[to_index(produced_)] == 0) return false;
  }
  return true;
}

REEF_INLINE void MessageExchange::produce(std::int64_t piece) {
  const int mine = station_->position;
  const Bytes place = pieces_.at(mine, piece);
  const std::byte* const input = plan_->input_at(place);
  std::byte* const output = plan_->output_at(place);
  if (plan_->reduce && (station_->size() > 1 || plan_->widening > 1)) {
    for (int position = 0; position < station_->size(); ++position) {
      sources_[to_index(position)] =
          position == mine ? input : static_cast<const void*>(slot_payload(position, piece));
    }
    plan_->fold(output, sources_, pieces_.count(mine, piece));
  } else if (output != input) {
    std::memcpy(output, input, pieces_.bytes(mine, piece));
  }
  if (plan_->reduce && plan_->on_folded) {
    const std::int64_t begin = piece * pieces_.elements;
    plan_->on_folded(begin, begin + pieces_.count(mine, piece));
  }
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
