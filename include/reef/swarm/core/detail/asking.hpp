#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <reef/swarm/core/detail/duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// What a peer asks others for again, since it was sent once and has not come.
struct Asking : Duty {
  /// Asks again for what was sent once and has not come, such as after a connection was lost.
  void ask_again();
  void want_parts();
  void want_results();
  void want_state();
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/asking.ipp>
#endif
