#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/comm/detail/exchange.hpp>
#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/comm/detail/window.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// A collective through shared memory, in rounds of one piece of every shard.
///
/// Per round: copy my chunks of the others' shards into my slot; once everyone's are there, fold my
/// shard in rank order straight out of the slots; give the result back through my slot, and copy
/// the others' out. Two slots, so that a round starts while slower ranks still read the one before.
/// Nobody spins: each step is taken when the counters of all ranks allow it, else not.
class WindowExchange final : public Exchange {
public:
  REEF_INLINE void start(const Station& station, const ExchangePlan& plan, const Header& prototype, Kind kind,
             std::string_view name) override;

  REEF_INLINE bool advance() override;

  [[nodiscard]] bool done() const override { return finished() == rounds_; }

  REEF_INLINE void missing(std::vector<int>& ranks) const override;

private:
  using Counter = std::atomic<std::uint64_t> WindowBoard::*;

  [[nodiscard]] std::uint64_t finished() const { return plan_->gather ? out_ : folded_; }
  [[nodiscard]] WindowBoard& mine() const { return channel_->board(station_->position); }
  [[nodiscard]] std::byte* part(int position, std::uint64_t round, int shard) const;

  /// Nobody reads the slot of two rounds ago any more.
  [[nodiscard]] bool slots_free() const;

  /// Every rank's counter is past `round`, and its slot holds this very operation.
  [[nodiscard]] bool all_at(Counter counter, std::uint64_t round) const;

  void copy_in();

  void fold();

  void copy_out();

  void publish() { mine().done.store(base_ + finished(), std::memory_order_release); }

  const Station* station_ = nullptr;
  const ExchangePlan* plan_ = nullptr;
  Kind kind_ = Kind::all_reduce;
  WindowChannel* channel_ = nullptr;
  WindowBoard::Label label_;
  Pieces pieces_;
  std::uint64_t rounds_ = 0;  // of this operation
  std::uint64_t base_ = 0;    // rounds of the channel before it
  std::uint64_t in_ = 0, folded_ = 0, out_ = 0;
  std::vector<const void*> sources_;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/window_exchange.ipp>
#endif
