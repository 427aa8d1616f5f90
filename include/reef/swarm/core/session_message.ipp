#pragma once

#include <string_view>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/session_message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::string_view name_of(SessionRefusal refusal) {
  switch (refusal) {
    case SessionRefusal::step: return "step";
    case SessionRefusal::epoch: return "epoch";
    case SessionRefusal::unknown: return "unknown";
    case SessionRefusal::room: return "room";
    case SessionRefusal::evicted: return "evicted";
    case SessionRefusal::model: return "model";
    case SessionRefusal::overload: return "overload";
    case SessionRefusal::draining: return "draining";
    case SessionRefusal::malformed: return "malformed";
  }
  return "unknown";
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
