#pragma once

#include <reef/core/units.hpp>
#include <reef/swarm/core/session_router.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// A look, now and then, whether a session moves to other servers between two steps.
///
/// | draining | servers of the chain that drain are left as soon as others have their blocks: 4 looks a second     |
/// | quicker  | a look each 5 s; the session moves where two in a row find a better chain, so that a queue that    |
/// |          | comes and goes moves nobody                                                                        |
///
/// \code
/// swarm::core::SessionRouter router({.blocks = 2});
/// swarm::core::ChainWatch watch;
/// const auto chain = watch.look(router, {.blocks = {0, 2}, .own = {{"a", {0, 2}}}}, {}, 0.0).hops;  // empty: it stays
/// \endcode
class ChainWatch {
public:
  /// Returns the chain that the session of `wish.own` moves to now; no hops where it stays.
  FoundRoute look(const SessionRouter& router, const RouteWish& wish, const SessionAge& age, Seconds now);

private:
  Seconds looked_ = 0;
  Seconds looked_around_ = 0;
  bool wants_ = false;  // the last look has found a better chain
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/chain_watch.ipp>
#endif
