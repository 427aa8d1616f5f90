#pragma once

#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/serve/detail/roster.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The way from the store's threads to the loop, which outlives the roster in callbacks that come late.
struct Roster::Hub {
  std::mutex mutex;
  Endpoint* endpoint = nullptr;

  void post(std::function<void()> function) {
    const std::lock_guard lock(mutex);
    if (endpoint != nullptr) endpoint->post(std::move(function));
  }
};

REEF_INLINE Roster::Roster(Presence& presence, Endpoint& endpoint,
                           std::function<void(const std::vector<ServedSpan>&)> found)
    : presence_(presence), found_(std::move(found)), hub_(std::make_shared<Hub>()) {
  hub_->endpoint = &endpoint;
}

REEF_INLINE Roster::~Roster() { stop(); }

REEF_INLINE void Roster::stop() {
  const std::lock_guard lock(hub_->mutex);
  hub_->endpoint = nullptr;
}

REEF_INLINE void Roster::announce(const ServedSpan& span) {
  key_ = to_text(span.id);
  text_ = text_of(span);
  presence_.present(key_, text_, lease, [](std::string_view) {});
}

REEF_INLINE void Roster::withdraw() {
  if (!text_.empty()) presence_.absent(key_, [](std::string_view) {});
  text_.clear();
}

REEF_INLINE void Roster::tick(Seconds now) {
  if (!text_.empty() && now - renewed_ > lease / 3) {
    renewed_ = now;
    presence_.present(key_, text_, lease, [](std::string_view) {});
  }
  constexpr Seconds every = 0.5;
  if (now - looked_ > every && !looking_) {
    looked_ = now;
    look();
  }
}

REEF_INLINE void Roster::look() {
  looking_ = true;
  presence_.presences([this, hub = hub_](const Presences& read) {
    hub->post([this, read] {
      looking_ = false;
      if (!read.answered) return;
      std::vector<ServedSpan> all;
      for (const PresentKey& key : read.keys) {
        std::optional<ServedSpan> span = served_span_of(key.value);
        if (span && to_text(span->id) == key.key) all.push_back(std::move(*span));
      }
      found_(all);
    });
  });
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
