#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/receiver.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

// The messages of a SharedCounter. A claim is a bare header to rank 0, its answer an Allotment.

struct Allotment {
  Header header;
  std::uint64_t number = 0;
};
static_assert(sizeof(Allotment) == header_bytes + 8);

/// Rank 0's half: gives each claim the next number, for as long as the Progress object lives.
///
/// | who    | take, next and restart: any thread; the rest is the progress thread's |
/// | order  | numbers go to claims as they arrive; a rank makes one claim at a time |
/// | waits  | for nobody: a rank that claims nothing is not missed                  |
class ClaimDesk final : private Receiver {
public:
  ClaimDesk(int ranks, std::uint64_t operation)
      : operation_(operation), peers_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] std::uint64_t operation() const { return operation_; }

  /// Gives this very rank a number.
  std::uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// The number that comes next.
  [[nodiscard]] std::uint64_t next() const { return next_.load(std::memory_order_relaxed); }
  /// While no claim is in flight anywhere.
  void restart(std::uint64_t next) { next_.store(next, std::memory_order_relaxed); }

  /// Awaits the first claims; nothing when called again.
  void open(Wire& wire);

private:
  struct Peer {
    Header claim;
    Allotment answer;
    std::uint32_t claims = 0;  // answered so far
  };
  enum Part : std::uint64_t { claim, answer };  // in a token: 2 rank + part

  [[nodiscard]] Header header(const Peer& peer, Bytes bytes) const {
    return Header::of(operation_, peer.claims, bytes);
  }

  void listen(std::uint64_t rank);

  REEF_INLINE void delivered(std::uint64_t token) override;

  std::uint64_t operation_;
  std::atomic<std::uint64_t> next_{0};
  Wire* wire_ = nullptr;
  std::vector<Peer> peers_;  // by rank; the first is unused
};

/// Asks rank 0 for a number: one claim, in flight until it is answered. Of the other ranks.
class ClaimTask final : public Task, private Receiver {
public:
  explicit ClaimTask(std::string name) : Task(Kind::claim, std::move(name)) {}
  ~ClaimTask() override { retire(); }

  /// What the answer to the last claim says. Not while in flight.
  [[nodiscard]] std::uint64_t number() const { return answer_.number; }

private:
  static constexpr int desk = 0;  // its rank

  REEF_INLINE void start(const Station& station) override;
  REEF_INLINE void delivered(std::uint64_t) override;
  bool advance() override { return std::exchange(moved_, false); }
  [[nodiscard]] bool done() const override { return pending_ == 0; }
  [[nodiscard]] Awaited awaited() const override { return {this, pending_}; }
  void missing(std::vector<int>& ranks) const override { ranks.assign(1, desk); }
  [[nodiscard]] Bytes payload() const override { return sizeof answer_.number; }
  [[nodiscard]] int peer() const override { return desk; }

  Header claim_;
  Allotment answer_;
  std::uint64_t pending_ = 0;
  bool moved_ = false;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/claims.ipp>
#endif
