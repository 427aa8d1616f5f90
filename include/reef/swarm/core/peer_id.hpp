#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The identity of a process that takes part in a job: the name on its certificate, and a number drawn when the process
/// starts. A process that starts again under its name is another peer, so that no round mixes the gradients of two.
///
/// \code
/// const swarm::PeerId peer{"garage", 0x5eed};
/// \endcode
struct PeerId {
  std::string name{};
  std::uint64_t incarnation = 0;

  friend auto operator<=>(const PeerId&, const PeerId&) = default;
};

/// Returns a peer's identity as text for errors and reports: "garage/5eed".
inline std::string to_text(const PeerId& peer) {
  constexpr char digits[] = "0123456789abcdef";
  std::string number;
  for (std::uint64_t left = peer.incarnation; left != 0 || number.empty(); left >>= 4) {
    number.insert(number.begin(), digits[left & 15]);
  }
  return concat(peer.name, "/", number);
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
