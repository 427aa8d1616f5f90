#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

inline constexpr Bytes max_presence_key_bytes = 256;
inline constexpr Bytes max_presence_value_bytes = 16_KiB;

/// The shortest lease of a presence key, in seconds, that every implementation keeps.
inline constexpr Seconds shortest_presence = 2;

/// A presence key that has not expired, and its owner's value.
struct PresentKey {
  std::string key;
  std::string value;
  friend bool operator==(const PresentKey&, const PresentKey&) = default;
};

/// The answer to Presence::presences: all keys that have not expired.
struct Presences {
  std::vector<PresentKey> keys;  ///< keys that have not expired, ascending
  bool answered = false;         ///< false where the store could not be asked in time
  std::string why;               ///< reason why the store did not answer, with the fix, where `answered` is false
};

/// A callback for the end of writing or removing a presence key. `why`: an empty text, or the reason of a failure.
using PresenceDone = std::function<void(std::string_view why)>;

/// A store of keys that expire unless their owner renews them, for hints such as a peer's address and whom it hears.
///
/// | lease     | a key stands for `ttl` seconds, at least shortest_presence, after its last `present`; a busy |
/// |           | keeper may keep it longer, and one that restarts, or changes its leader, may lose it         |
/// | renew     | call `present` again each third of its ttl, with the same value or a new one                 |
/// | callbacks | as those of DecisionLog                                                                      |
/// | errors    | OptionError: a key or a value that is too long or no UTF-8, an empty key, a ttl not above 0  |
///
/// Models: RemoteLog, EtcdLog, SimulatedLog.
///
/// \code
/// // given: swarm::Presence& presence
/// presence.present("peer-1", R"({"address":"10.0.0.7:4100"})", 3, [](std::string_view) { /* why not */ });
/// presence.presences([](const swarm::Presences&) { /* the keys */ });
/// \endcode
class Presence {
public:
  Presence() = default;
  virtual ~Presence() = default;
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  /// Writes `value` under `key` and starts its lease of `ttl` seconds anew.
  virtual void present(std::string key, std::string value, Seconds ttl, PresenceDone done) = 0;

  /// Removes a key, whether it exists or not.
  virtual void absent(std::string key, PresenceDone done) = 0;

  /// Reads all keys that have not expired.
  virtual void presences(std::function<void(Presences)> done) = 0;
};

namespace detail {

/// Throws OptionError unless a presence key, its value and its lease are within the limits.
void require_presence(std::string_view key, std::string_view value, Seconds ttl);

}  // namespace detail

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/presence.ipp>
#endif
