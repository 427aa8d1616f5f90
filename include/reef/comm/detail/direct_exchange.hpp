#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/comm/detail/exchange.hpp>
#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/comm/detail/window.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// A collective that reads the arrays of the other ranks where they are; only its counters stand in
/// shared memory.
///
/// Every rank says where its array is. Once all have, the owner of a shard folds it piece by piece in
/// rank order, its own chunk in place, the others' out of a staging that stays in the cache; whoever
/// gathers reads each piece into its place as soon as its owner has it. Complete when nobody reads
/// here any more. A rank that fails withdraws what it said, and whoever read of it does not complete;
/// a rank that died is missing from the first read of it that fails.
class DirectExchange final : public Exchange {
public:
  REEF_INLINE void start(const Station& station, const ExchangePlan& plan, const Header& prototype, Kind kind,
             std::string_view name) override;

  /// Folds one piece and gathers one of each rank at most, so that the progress thread polls.
  REEF_INLINE bool advance() override;

  [[nodiscard]] bool done() const override {
    return rounds_ == 0 || (read_ && channel_->all_at(&WindowBoard::done, end()));
  }

  REEF_INLINE void missing(std::vector<int>& ranks) const override;

private:
  // Long, since each read costs a system call; yet still in a cache when it is folded.
  static constexpr Bytes piece = Bytes{1} << 20;
  static constexpr Bytes line = 64;
  static constexpr Bytes page = 4096;

  [[nodiscard]] WindowBoard& mine() const { return channel_->board(station_->position); }
  [[nodiscard]] std::uint64_t end() const { return base_ + static_cast<std::uint64_t>(rounds_); }

  void announce();

  /// Room for a piece, page-aligned, that begins at any place of a cache line: one for each rank to
  /// fold, else one.
  void prepare_staging();

  /// Reads of the rank at that position. False if it is gone or failed: then the deadline, or the failure that it
  /// reports, comes. Throws MpiError if it can be neither.
  bool read(int position, std::byte* to, std::uintptr_t from, Bytes bytes) {
    return readable(position, channel_->peers().read(station_->rank_of(position), to, from, bytes));
  }

  bool readable(int position, int code);

  /// Reads into the staging of that position, at the same place of a cache line, which is what makes it
  /// fast. Null where read() is false.
  [[nodiscard]] const std::byte* stage(int position, std::uintptr_t from, Bytes bytes);

  bool fold();

  /// Without a reduction the own shard is there already: it is only put into the output.
  bool keep();

  bool gather(int owner);

  [[nodiscard]] bool all_gathered() const;

  /// What was read is of the ranks, not of processes that took the number of one that died.
  [[nodiscard]] bool all_still_there();

  /// What was read before this is what its owners had there: an exchange comes after all reads.
  [[nodiscard]] bool nobody_withdrew() const;

  const Station* station_ = nullptr;
  const ExchangePlan* plan_ = nullptr;
  Kind kind_ = Kind::all_reduce;
  WindowChannel* channel_ = nullptr;
  WindowBoard::Label label_;
  Pieces pieces_;
  std::uint64_t base_ = 0;              // rounds of the channel before this
  std::int64_t rounds_ = 0;             // pieces of the longest shard
  std::int64_t own_ = 0;                // pieces of the own shard
  std::int64_t folded_ = 0;             // of these, final in the output
  std::vector<std::int64_t> gathered_;  // by owner: pieces that are in the output
  bool announced_ = false;              // this rank said where its array is
  bool together_ = false;               // all ranks said where their arrays are
  bool read_ = false;                   // nothing is left to read
  int unreadable_ = -1;                 // the position of which the last read failed
  std::vector<const void*> sources_;
  std::byte* staging_ = nullptr;
  Bytes stride_ = 0;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/direct_exchange.ipp>
#endif
