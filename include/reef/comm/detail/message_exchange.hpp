#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/comm/detail/exchange.hpp>
#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// A collective as point-to-point messages between all pairs, in pieces.
///
/// Chunks leave the input and folded shards enter the output without a copy; chunks that come in
/// wait in the queue's staging, (P - 1) * depth pieces, until those of all ranks are there and the
/// owner folds them in the order of the ranks. An all-reduce sends a piece on as soon as it is folded.
class MessageExchange final : public Exchange, private Receiver {
public:
  REEF_INLINE void start(const Station& station, const ExchangePlan& plan, const Header& prototype, Kind kind,
             std::string_view /*name*/) override;

  /// Folds at most one piece, so that the progress thread polls between pieces.
  REEF_INLINE bool advance() override;

  [[nodiscard]] bool done() const override { return remaining_ == 0 && produced_ == own_; }
  [[nodiscard]] Awaited awaited() const override {
    return {this, static_cast<std::uint64_t>(remaining_)};
  }

  /// The ranks that sent nothing yet; if all have sent something, those that still owe or take.
  REEF_INLINE void missing(std::vector<int>& ranks) const override;

private:
  enum class Part : std::uint64_t { chunk_out, chunk_in, shard_out, shard_in };

  struct Peer {
    std::int64_t chunk_out = 0, chunk_in = 0, shard_out = 0, shard_in = 0;  // posted
    std::int64_t chunk_out_done = 0;  // its first so many pieces have left
    std::int64_t shard_out_done = 0, shard_in_done = 0;
    std::int64_t to_send = 0, to_receive = 0;
    bool seen = false;
    std::vector<char> chunk_left;  // per piece of its shard
    std::vector<char> chunk_here;  // per piece of my shard
    std::vector<Header> chunk_out_headers, shard_out_headers, shard_in_headers;
  };

  static constexpr std::int64_t depth = 4;

  static std::size_t to_index(std::int64_t value) { return static_cast<std::size_t>(value); }
  static std::uint64_t token(Part part, int peer, std::int64_t piece);

  void prepare(int position);

  /// Slots of [header][payload], each on cache lines of its own.
  void prepare_staging();

  [[nodiscard]] Header& slot_header(int position, std::int64_t piece) const;
  [[nodiscard]] std::byte* slot_payload(int position, std::int64_t piece) const {
    return reinterpret_cast<std::byte*>(&slot_header(position, piece)) + header_bytes;
  }

  [[nodiscard]] Header header(int shard, std::int64_t piece) const;

  void pump_all();

  void pump(int position);

  REEF_INLINE void delivered(std::uint64_t token) override;

  [[nodiscard]] bool all_chunks_here() const;

  /// Makes the next piece of the own shard: by folding, or by copying what is already folded.
  void produce(std::int64_t piece);

  const Station* station_ = nullptr;
  const ExchangePlan* plan_ = nullptr;
  Header prototype_;
  Kind kind_ = Kind::all_reduce;
  Pieces pieces_;
  std::int64_t own_ = 0;        // pieces of the own shard
  std::int64_t produced_ = 0;   // of these, final in the output
  std::int64_t remaining_ = 0;  // messages not yet delivered
  std::int64_t send_limit_ = 16;
  bool moved_ = false;
  std::vector<Peer> peers_;
  std::vector<const void*> sources_;
  std::byte* staging_ = nullptr;
  Bytes slot_bytes_ = 0;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/message_exchange.ipp>
#endif
