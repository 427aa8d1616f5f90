#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

class Sink;

namespace detail {

/// The table of the interned names of one rank's trace. A track looks up only names that it has not seen before.
class Names {
public:
  static constexpr std::size_t limit = std::size_t{1} << 16;

  struct Entry {
    Name name;
    const std::string* text;  // the interned name, valid as long as the table; null once the table is full
  };

  Names() { texts_.emplace_back("(more names than a sink keeps)"); }

  Entry intern(std::string_view text);

  void append_new(std::vector<std::string>& to) const;

private:
  mutable std::mutex mutex_;
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> index_;
};

}  // namespace detail

/// The trace spans of one queue (lane), as its thread writes them: a bounded buffer from one writer to one reader.
///
/// | writer | one thread at a time; it neither locks nor allocates, except at a name's first use |
/// | cost   | some tens of ns for each span; a load and a branch while the sink is disabled      |
/// | memory | fixed; a span that finds no free space is dropped and counted                      |
class Track {
public:
  Track(Sink& sink, std::uint16_t index, std::string lane, std::size_t capacity);
  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;

  [[nodiscard]] const std::string& lane() const& { return lane_; }
  [[nodiscard]] std::string lane() const&& { return lane_; }
  [[nodiscard]] bool enabled() const;

  /// Interns the name of a span and returns it. Call it once for a name that is written often, on the writer's thread.
  Name intern(std::string_view text) {
    const std::size_t hash = std::hash<std::string_view>{}(text);
    std::size_t slot = hash & (known_.size() - 1);
    for (; known_[slot].text != nullptr; slot = (slot + 1) & (known_.size() - 1)) {
      if (known_[slot].hash == hash && *known_[slot].text == text) return known_[slot].name;
    }
    return cache_name(text, hash, slot);
  }

  /// Records a span of time: the lane (queue) did `name` from `begin` to `end`.
  void span(Activity activity, std::string_view name, Seconds begin, Seconds end, Bytes bytes = 0,
            const Links& links = {}) {
    if (enabled()) span(activity, intern(name), begin, end, bytes, links);
  }
  void span(Activity activity, Name name, Seconds begin, Seconds end, Bytes bytes = 0,
            const Links& links = {}) {
    if (!enabled()) return;
    append({begin, end, bytes, links.message, links.id, links.cause, name, index_, activity,
            links.role});
  }

private:
  friend class Sink;

  struct NameEntry {
    std::size_t hash = 0;
    const std::string* text = nullptr;
    Name name{};
  };

  void append(const Span& span) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_seen_ == capacity_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head - tail_seen_ == capacity_) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    spans_[head & (capacity_ - 1)] = span;
    head_.store(head + 1, std::memory_order_release);
  }

  Name cache_name(std::string_view text, std::size_t hash, std::size_t slot);

  /// Moves the spans written so far to the end of `to`; one reader at a time (the lock of the Sink).
  void take(std::vector<Span>& to);

  Sink& sink_;
  std::string lane_;
  std::uint16_t index_;
  std::uint64_t capacity_;                          // a power of two
  std::unique_ptr<Span[]> spans_;                   // not initialised, so that pages are allocated with use
  alignas(64) std::atomic<std::uint64_t> head_{0};  // the number of spans written, by the writer
  std::uint64_t tail_seen_ = 0;
  std::atomic<std::uint64_t> dropped_{0};
  std::vector<NameEntry> known_ = std::vector<NameEntry>(64);  // open addressing, at most half full
  std::size_t known_count_ = 0;
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // the number of spans read, by the reader
};

/// The collector of the trace spans of one rank, to which all its queues (lanes) and its communication write.
///
/// A lane gets its Track once, and is its only writer. `collect` moves the spans into a
/// Recording, at any time, from any thread.
///
/// | memory | 48 bytes * spans_per_track for each track, in pages that are allocated with use |
/// | life   | outlives the writers of its tracks                                              |
/// | bits   | tracing reads clocks and changes no computed number                             |
///
/// \code
/// trace::Sink sink(0);  // of rank 0
/// trace::Track& track = sink.track("compute");
/// const Seconds begin = trace::now();
/// track.span(trace::Activity::compute, "forward", begin, trace::now());
/// trace::Recording recording;
/// sink.collect(recording);
/// \endcode
class Sink {
public:
  struct Options {
    std::size_t spans_per_track = std::size_t{1} << 16;  // rounded up to a power of two
    bool enabled = true;
  };

  explicit Sink(int rank) : Sink(rank, Options()) {}
  /// Constructs the collector of a rank's trace. Throws OptionError for more than 2^32 spans in a track.
  Sink(int rank, Options options);
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  void enable(bool on) { enabled_.store(on, std::memory_order_relaxed); }

  /// Returns the track (trace buffer) of a lane, which the first call creates; its address stays valid. Throws
  /// OptionError at the 65 536th lane.
  Track& track(std::string lane);

  /// Returns the first of `count` consecutive numbers that no span of this rank has yet, for Links::id.
  /// Numbers repeat after 4 Gi spans.
  std::uint32_t ids(std::size_t count) {
    return next_id_.fetch_add(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  }

  /// Returns the number of spans that tracks dropped: collect more often, or raise spans_per_track.
  [[nodiscard]] std::uint64_t dropped() const;

  /// Moves the spans written since the last call to the end of `to`, which must always be the same
  /// recording, or an empty one. Returns the new spans, valid until `to` changes. Spans of one track
  /// are in the order in which they were written; a span that has not ended is not among them.
  std::span<const Span> collect(Recording& to);

private:
  friend class Track;

  [[nodiscard]] std::uint64_t count_dropped() const;

  int rank_;
  std::size_t capacity_;
  std::atomic<bool> enabled_;
  std::atomic<std::uint32_t> next_id_{1};
  mutable std::mutex mutex_;
  std::deque<Track> tracks_;
  std::uint64_t dropped_told_ = 0;
  detail::Names names_;
};

inline Track::Track(Sink& sink, std::uint16_t index, std::string lane, std::size_t capacity)
    : sink_(sink),
      lane_(std::move(lane)),
      index_(index),
      capacity_(capacity),
      spans_(new Span[capacity]) {}

inline bool Track::enabled() const { return sink_.enabled(); }

}  // namespace trace
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trace/sink.ipp>
#endif
