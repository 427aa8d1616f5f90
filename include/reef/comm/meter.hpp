#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The kind of a communication operation. `call` is a function call on this rank alone; `claim` is a request for a
/// number of a SharedCounter, or the answer; `control` is heartbeats, farewells and failure reports.
enum class Kind : std::uint8_t {
  send,
  receive,
  reduce_scatter,
  all_gather,
  all_reduce,
  all_to_all,
  call,
  claim,
  control
};

inline constexpr std::size_t kind_count = 9;

constexpr std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kind_count> names{
      "send",       "receive", "reduce-scatter", "all-gather", "all-reduce",
      "all-to-all", "call",    "claim",          "control"};
  return names[static_cast<std::size_t>(kind)];
}

/// The way in which an operation moves its data: by MPI messages, or inside one node by reading the other ranks'
/// arrays, or slots of shared memory (ProgressOptions::read_peers).
enum class Transport : std::uint8_t { messages, window };

/// The bytes and messages that one rank sends in one operation.
///
/// | messages, bytes | MPI messages and their bytes, headers included, as an MPI profiler counts them    |
/// | window_bytes    | bytes that this rank provides to others in shared memory, each counted once; they |
/// |                 | are not messages, and the reads of other ranks are not counted                    |
struct Cost {
  std::uint64_t messages = 0;
  Bytes bytes = 0;
  Bytes window_bytes = 0;

  friend constexpr bool operator==(const Cost&, const Cost&) = default;
  friend constexpr Cost operator+(const Cost& a, const Cost& b) {
    return {a.messages + b.messages, a.bytes + b.bytes, a.window_bytes + b.window_bytes};
  }
  friend constexpr Cost operator-(const Cost& a, const Cost& b) {
    return {a.messages - b.messages, a.bytes - b.bytes, a.window_bytes - b.window_bytes};
  }
};

/// The bytes and messages that one rank has sent so far, per kind of operation.
///
/// \code
/// // given: comm::Progress& progress, std::vector<float>& gradient
/// const comm::Meter before = progress.meter();
/// comm::all_reduce(progress, "gradient", std::span(gradient));
/// const Bytes sent = (progress.meter().operations() - before.operations()).bytes;
/// \endcode
struct Meter {
  std::array<Cost, kind_count> kinds{};

  [[nodiscard]] Cost of(Kind kind) const { return kinds[static_cast<std::size_t>(kind)]; }

  /// Returns the messages and bytes that this rank has sent, over all kinds of operations, control included.
  [[nodiscard]] Cost total() const;

  /// Returns the messages and bytes that this rank has sent, over all kinds of operations but control.
  [[nodiscard]] Cost operations() const { return total() - of(Kind::control); }
};

namespace detail {

/// Counters of sent messages and bytes with one writer (the progress thread) that any thread may read.
class LiveMeter {
public:
  void message(Kind kind, Bytes bytes);
  void window(Kind kind, Bytes bytes) { add(kind, 2, bytes); }

  [[nodiscard]] Meter read() const;

private:
  void add(Kind kind, std::size_t column, std::uint64_t amount) {
    counters_[static_cast<std::size_t>(kind)][column].fetch_add(amount, std::memory_order_relaxed);
  }

  std::array<std::array<std::atomic<std::uint64_t>, 3>, kind_count> counters_{};
};

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/meter.ipp>
#endif
