#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json_string.hpp>
#include <reef/swarm/log/decision_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::string_view name_of(AppendOutcome outcome) {
  constexpr std::array<std::string_view, 4> names{"won", "lost", "early", "unknown"};
  return names.at(static_cast<std::size_t>(outcome));
}

REEF_INLINE LogWatch& LogWatch::operator=(LogWatch&& other) noexcept {
  if (this != &other) {
    stop();
    watcher_ = std::move(other.watcher_);
  }
  return *this;
}

REEF_INLINE void LogWatch::stop() {
  const std::shared_ptr<detail::Watcher> watcher = std::move(watcher_);
  watcher_ = nullptr;
  if (watcher) watcher->stop();
}

namespace detail {

REEF_INLINE void require_entry(LogIndex at, std::string_view entry) {
  if (entry.empty() || entry.size() > max_entry_bytes) {
    throw OptionError("reef::swarm: the entry at ", at, " of the log has ", entry.size(), " bytes; the limit is 1 to ",
                      max_entry_bytes, ".\n  fix: entries carry digests and decisions; send what is large to peers.");
  }
  for (std::size_t i = 0; i < entry.size();) {
    const std::size_t length = io::detail::utf8_length(entry.substr(i));
    if (length == 0) {
      throw OptionError("reef::swarm: the entry at ", at, " of the log is no UTF-8 at byte ", i,
                        ": ", in_quotes(entry.substr(i, 8)), ".\n  fix: entries are JSON.");
    }
    i += length;
  }
}

struct Watcher::State {
  // Recursive, since the function may end its own watch. Held while the function runs, so that stop() waits for it.
  mutable std::recursive_mutex mutex;
  EntryFound found;
  std::atomic<LogIndex> next;
  std::atomic<bool> stopped = false;
};

REEF_INLINE Watcher::Watcher(LogIndex from, EntryFound found) : state_(std::make_unique<State>()) {
  state_->found = std::move(found);
  state_->next = from;
}

REEF_INLINE Watcher::~Watcher() = default;

REEF_INLINE LogIndex Watcher::next() const { return state_->next; }

REEF_INLINE void Watcher::give(LogIndex at, std::string_view entry) {
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped || at != state_->next) return;
  state_->next = at + 1;
  state_->found(at, entry);
}

REEF_INLINE void Watcher::give(const LogPage& page) {
  LogIndex at = page.from;
  {
    const std::lock_guard lock(state_->mutex);
    if (!page.entries.empty() && at > state_->next) state_->next = at;  // what lies between was dropped
  }
  for (const std::string& entry : page.entries) give(at++, entry);
}

REEF_INLINE void Watcher::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
}

REEF_INLINE bool Watcher::stopped() const { return state_->stopped; }

}  // namespace detail

}  // namespace swarm
}  // namespace v0
}  // namespace reef
