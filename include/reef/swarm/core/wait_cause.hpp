#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// What a peer's trainer waits for, in the order in which a round has them.
///
/// | membership    | a view that has this peer                                             |
/// | weights       | the weights and the optimizer's state that the others have            |
/// | micro_batches | micro-batches to compute: this peer has computed all that it may take |
/// | contributions | the contributions of other members to the round                       |
/// | members       | the log's word on members that are silent                             |
/// | results       | sums that other members compute, or have                              |
/// | commit        | the log's entry that the round stands                                 |
/// | log           | an answer of the log, which is away                                   |
///
/// \code
/// const std::string_view name = swarm::core::name_of(swarm::core::WaitCause::commit);  // "commit"
/// \endcode
enum class WaitCause : std::uint8_t {
  membership,
  weights,
  micro_batches,
  contributions,
  members,
  results,
  commit,
  log
};

/// The number of wait causes.
inline constexpr std::size_t wait_causes = 8;

/// Returns the name of a cause, such as "micro_batches".
constexpr std::string_view name_of(WaitCause cause) {
  constexpr std::array<std::string_view, wait_causes> names{"membership", "weights", "micro_batches", "contributions",
                                                            "members",    "results", "commit",        "log"};
  return names[static_cast<std::size_t>(cause)];
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
