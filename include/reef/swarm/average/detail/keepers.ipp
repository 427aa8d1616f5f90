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

REEF_INLINE void Keepers::Hub::post(std::function<void()> function) {
  const std::lock_guard lock(mutex);
  if (endpoint != nullptr) endpoint->post(std::move(function));
}

REEF_INLINE Keepers::Keepers(DecisionLog& log, Presence& presence, Endpoint& endpoint,
                             std::function<void(core::Event)> hear,
                             std::function<void(const std::vector<PeerPresence>&)> found)
    : log_(log), endpoint_(endpoint),
      presence_(presence),
      hear_(std::move(hear)),
      found_(std::move(found)),
      hub_(std::make_shared<Hub>()) {
  hub_->endpoint = &endpoint;
}

REEF_INLINE Keepers::~Keepers() {
  stop();
  watch_.stop();
}

REEF_INLINE void Keepers::stop() {
  const std::lock_guard lock(hub_->mutex);
  hub_->endpoint = nullptr;
}

REEF_INLINE void Keepers::start() { find_end(0); }

REEF_INLINE void Keepers::find_end(LogIndex index) {
  log_.read(index, [this, hub = hub_](const LogPage& page) {
    const LogIndex next = page.from + page.entries.size();
    hub->post([this, next, is_end = page.entries.empty(), answered = page.answered, why = page.why] {
      note(answered ? "" : why);
      if (!answered) {
        endpoint_.after(std::chrono::milliseconds(500), [this, next] { find_end(next); });
      } else if (!is_end) {
        find_end(next);
      } else {
        hear_(core::event::LogEnd{static_cast<std::int64_t>(next)});
        watch_ = log_.watch(0, [this, hub = hub_](LogIndex, std::string_view text) {
          hub->post([this, entry = entry_from_text(text)] { hear_(core::event::Read{entry}); });
        });
      }
    });
  });
}

REEF_INLINE void Keepers::append(std::int64_t index, const Entry& entry) {
  log_.append(static_cast<LogIndex>(index), to_text(entry), [this, hub = hub_, index](const Appended& answer) {
    hub->post([this, index, answer] {
      note(answer.outcome == AppendOutcome::unknown ? answer.why : "");
      hear_(core::event::Appended{index, answer.outcome == AppendOutcome::won});
    });
  });
}

REEF_INLINE void Keepers::announce(const PeerPresence& presence) {
  key_ = to_text(presence.who.id);
  announced_ = text_of(presence);
  presence_.present(key_, announced_, lease, [](std::string_view) {});
}

REEF_INLINE void Keepers::tick(Seconds now, Seconds beat) {
  if (!announced_.empty() && now - renewed_ > lease / 3) {
    renewed_ = now;
    presence_.present(key_, announced_, lease, [](std::string_view) {});
  }
  if (now - looked_ > 2 * beat && !looking_) {
    looked_ = now;
    look();
  }
}

REEF_INLINE void Keepers::look() {
  looking_ = true;
  presence_.presences([this, hub = hub_](const Presences& read) {
    hub->post([this, read] {
      looking_ = false;
      if (!read.answered) return;
      core::event::Present present;
      for (const PresentKey& key : read.keys) {
        std::optional<PeerPresence> presence = presence_from_text(key.value);
        if (presence) present.all.push_back(std::move(*presence));
      }
      found_(present.all);
      hear_(std::move(present));
    });
  });
}

REEF_INLINE void Keepers::post(std::function<void()> function) { hub_->post(std::move(function)); }

REEF_INLINE void Keepers::note(std::string away) {
  const std::lock_guard lock(hub_->mutex);
  hub_->away = std::move(away);
}

REEF_INLINE std::string Keepers::away() const {
  const std::lock_guard lock(hub_->mutex);
  return hub_->away;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
