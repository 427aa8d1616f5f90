#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/detail/keepers.hpp>
#include <reef/swarm/average/detail/peer_frames.hpp>
#include <reef/swarm/core/entry_json.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE Keepers::Keepers(DecisionLog& log, Presence& presence, Endpoint& endpoint,
                             std::function<void(core::Event)> hear,
                             std::function<void(const std::vector<PeerPresence>&)> found)
    : log_(log),
      endpoint_(endpoint),
      hear_(std::move(hear)),
      found_(std::move(found)),
      gate_(std::make_shared<LoopGate>(endpoint)),
      presence_(presence, gate_, [this](const std::vector<PresentKey>& keys) { look_at(keys); }) {}

REEF_INLINE Keepers::~Keepers() {
  stop();
  watch_.stop();
}

REEF_INLINE void Keepers::start() { find_end(0); }

REEF_INLINE void Keepers::find_end(LogIndex index) {
  log_.read(index, [this, gate = gate_](const LogPage& page) {
    const LogIndex next = page.from + page.entries.size();
    gate->post([this, next, is_end = page.entries.empty(), answered = page.answered, why = page.why] {
      note(answered ? "" : why);
      if (!answered) {
        endpoint_.after(std::chrono::milliseconds(500), [this, next] { find_end(next); });
      } else if (!is_end) {
        find_end(next);
      } else {
        hear_(core::event::LogEnd{static_cast<std::int64_t>(next)});
        watch_ = log_.watch(0, [this, gate = gate_](LogIndex at, std::string_view text) {
          gate->post([this, at, entry = entry_from_text(text)] {
            hear_(core::event::Read{entry, static_cast<std::int64_t>(at)});
          });
        });
      }
    });
  });
}

REEF_INLINE void Keepers::append(std::int64_t index, const Entry& entry) {
  log_.append(static_cast<LogIndex>(index), to_text(entry), [this, gate = gate_, index](const Appended& answer) {
    gate->post([this, index, answer] {
      note(answer.outcome == AppendOutcome::unknown ? answer.why : "");
      hear_(core::event::Appended{index, answer.outcome == AppendOutcome::won});
    });
  });
}

REEF_INLINE void Keepers::announce(const PeerPresence& presence) {
  presence_.announce(to_text(presence.who.id), text_of(presence));
}

REEF_INLINE void Keepers::tick(Seconds now, Seconds beat) { presence_.tick(now, 2 * beat); }

REEF_INLINE void Keepers::look_at(const std::vector<PresentKey>& keys) {
  core::event::Present present;
  for (const PresentKey& key : keys) {
    std::optional<PeerPresence> presence = presence_from_text(key.value);
    if (presence) present.all.push_back(std::move(*presence));
  }
  found_(present.all);
  hear_(std::move(present));
}

REEF_INLINE void Keepers::note(std::string away) {
  const std::lock_guard lock(mutex_);
  away_ = std::move(away);
}

REEF_INLINE std::string Keepers::away() const {
  const std::lock_guard lock(mutex_);
  return away_;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
