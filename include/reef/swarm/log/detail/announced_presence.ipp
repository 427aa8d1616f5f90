#pragma once

#include <string_view>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/log/detail/announced_presence.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE AnnouncedPresence::AnnouncedPresence(Presence& presence, std::shared_ptr<LoopGate> gate,
                                                 std::function<void(const std::vector<PresentKey>&)> found)
    : presence_(presence), gate_(std::move(gate)), found_(std::move(found)) {}

REEF_INLINE void AnnouncedPresence::announce(std::string key, std::string value) {
  key_ = std::move(key);
  value_ = std::move(value);
  write();
}

REEF_INLINE void AnnouncedPresence::withdraw() {
  if (!value_.empty()) presence_.absent(key_, [](std::string_view) {});
  value_.clear();
}

REEF_INLINE void AnnouncedPresence::tick(Seconds now, Seconds every) {
  if (!value_.empty() && now - renewed_ > lease / 3) {
    renewed_ = now;
    write();
  }
  if (now - looked_ > every && !looking_) {
    looked_ = now;
    look();
  }
}

REEF_INLINE void AnnouncedPresence::write() { presence_.present(key_, value_, lease, [](std::string_view) {}); }

REEF_INLINE void AnnouncedPresence::look() {
  looking_ = true;
  presence_.presences([this, gate = gate_](const Presences& read) {
    gate->post([this, read] {
      looking_ = false;
      if (read.answered) found_(read.keys);
    });
  });
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
