#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include <reef/core/inline.hpp>
#include <reef/trace/sink.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

namespace detail {

REEF_INLINE Names::Entry Names::intern(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = index_.find(text); found != index_.end()) {
    return {static_cast<Name>(found->second), &texts_[found->second]};
  }
  if (texts_.size() == limit) return {Name{0}, nullptr};
  const auto id = static_cast<std::uint32_t>(texts_.size());
  const std::string& stored = texts_.emplace_back(text);
  index_.emplace(stored, id);
  return {static_cast<Name>(id), &stored};
}

REEF_INLINE void Names::append_new(std::vector<std::string>& to) const {
  const std::scoped_lock lock(mutex_);
  for (std::size_t id = to.size(); id < texts_.size(); ++id) to.push_back(texts_[id]);
}

}  // namespace detail

REEF_INLINE void Track::take(std::vector<Span>& to) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  for (std::uint64_t i = tail; i != head; ++i) to.push_back(spans_[i & (capacity_ - 1)]);
  tail_.store(head, std::memory_order_release);
}

REEF_INLINE Sink::Sink(int rank, Options options)
    : rank_(rank), capacity_(1), enabled_(options.enabled) {
  constexpr std::size_t most = std::size_t{1} << 32;
  if (options.spans_per_track > most) {
    throw OptionError("reef::trace::Sink: spans_per_track is ", options.spans_per_track,
                      ".\n  fix: up to ", most, ", and collect() more often.");
  }
  capacity_ = std::bit_ceil(options.spans_per_track);
}

REEF_INLINE Track& Sink::track(std::string lane) {
  const std::scoped_lock lock(mutex_);
  for (Track& track : tracks_) {
    if (track.lane() == lane) return track;
  }
  if (tracks_.size() >= (std::numeric_limits<std::uint16_t>::max)()) {
    throw OptionError("reef::trace::Sink: too many lanes, at '", lane,
                      "'.\n  fix: name lanes after what runs in order, not after each thing run.");
  }
  return tracks_.emplace_back(*this, static_cast<std::uint16_t>(tracks_.size()), std::move(lane),
                              capacity_);
}

REEF_INLINE std::uint64_t Sink::dropped() const {
  const std::scoped_lock lock(mutex_);
  return count_dropped();
}

REEF_INLINE std::span<const Span> Sink::collect(Recording& to) {
  const std::scoped_lock lock(mutex_);
  if (to.spans.size() > to.limit) {  // forgets here and not below: what is new is always returned
    const std::size_t over = to.spans.size() - to.limit / 2;
    to.spans.erase(to.spans.begin(), to.spans.begin() + static_cast<std::ptrdiff_t>(over));
    to.dropped += over;
  }
  to.rank = rank_;
  const std::size_t first = to.spans.size();
  for (Track& track : tracks_) track.take(to.spans);
  for (std::size_t i = to.tracks.size(); i < tracks_.size(); ++i) {
    to.tracks.push_back(tracks_[i].lane());
  }
  names_.append_new(to.names);  // after the spans, so that it has every name that they use
  const std::uint64_t dropped = count_dropped();
  to.dropped += dropped - dropped_told_;
  dropped_told_ = dropped;
  return std::span<const Span>(to.spans).subspan(first);
}

REEF_INLINE std::uint64_t Sink::count_dropped() const {
  std::uint64_t count = 0;
  for (const Track& track : tracks_) count += track.dropped_.load(std::memory_order_relaxed);
  return count;
}

REEF_INLINE Name Track::cache_name(std::string_view text, std::size_t hash, std::size_t slot) {
  const detail::Names::Entry entry = sink_.names_.intern(text);
  if (entry.text == nullptr) return entry.name;
  known_[slot] = {hash, entry.text, entry.name};
  if (++known_count_ * 2 > known_.size()) {
    std::vector<NameEntry> old(known_.size() * 2);
    old.swap(known_);
    for (const NameEntry& known : old) {
      if (known.text == nullptr) continue;
      std::size_t place = known.hash & (known_.size() - 1);
      while (known_[place].text != nullptr) place = (place + 1) & (known_.size() - 1);
      known_[place] = known;
    }
  }
  return entry.name;
}

}  // namespace trace
}  // namespace v0
}  // namespace reef
