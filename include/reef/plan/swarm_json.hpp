#pragma once

#include <string_view>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/swarm.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Reads a swarm, the announcements of its servers, from JSON.
///
/// | L       | the number of blocks                                                              |
/// | servers | {id, start, end, thr, state} each: half-open span, requests per second,           |
/// |         | ONLINE (where left out), JOINING or OFFLINE; a server without blocks yet has K    |
/// |         | instead of start and end; one that serves old blocks while it loads has old_start |
/// | records | of several with one id, the latest in the order OFFLINE, JOINING, ONLINE counts   |
/// | errors  | DecodeError and OptionError, naming the entry                                     |
///
/// \code
/// const plan::Swarm swarm = plan::swarm_from_json(io::read_json("swarm.json"), "swarm.json");
/// \endcode
Swarm swarm_from_json(const io::Json& json, std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/swarm_json.ipp>
#endif
