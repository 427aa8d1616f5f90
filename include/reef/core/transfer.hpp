#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <reef/core/language.hpp>

/// \file
/// Two properties of a transfer, for programs, messages and plans: what it carries, and when the next transfer may
/// start.

namespace reef {
inline namespace v0 {

/// The moment from which the next instruction in a transfer's queue may start.
///
/// | held   | when the transfer is complete: its messages have arrived                                      |
/// | posted | when the transfer has started, which it does once the queue is free and all that it           |
/// |        | waits for is ready. It completes when its messages have arrived; so posted transfers start in |
/// |        | order and complete in any order. A transfer that is not ready delays the next one             |
///
/// With posted receives a message leaves as soon as it is produced and the link is free,
/// whatever the receiver is doing, as long as the receiver has a free slot for the message.
enum class Completion : std::uint8_t { held, posted };

/// The kind of content of messages, by which meters count and codecs are chosen. Each message carries its kind.
///
/// | activation          | a tensor between stages, on its way forward                                |
/// | activation_gradient | the gradient of such a tensor, on its way back                             |
/// | gradient            | gradients of parameters, on their way to the ranks that sum them, and back |
/// | parameter           | weights                                                                    |
/// | pseudo_gradient     | weights or their differences that an outer step averages                   |
/// | scalars             | counts, losses and norms, in doubles                                       |
///
/// \code
/// static_assert(is_between_stages(Traffic::activation) && name_of(Traffic::parameter) == "parameter");
/// \endcode
enum class Traffic : std::uint8_t {
  none,
  activation,
  activation_gradient,
  gradient,
  parameter,
  pseudo_gradient,
  scalars
};

inline constexpr std::size_t traffic_count = 7;

/// Returns true for tensors that are sent between stages: activations and their gradients.
constexpr bool is_between_stages(Traffic traffic) {
  return traffic == Traffic::activation || traffic == Traffic::activation_gradient;
}

/// Returns the name of a kind of message content, such as "activation"; "unknown direction" for any other value, as in
/// a damaged message.
constexpr std::string_view name_of(Traffic traffic) {
  constexpr std::array<std::string_view, traffic_count> names{
      "none",   "activation", "activation gradient", "gradient", "parameter", "pseudo-gradient",
      "scalars"};
  const auto index = static_cast<std::size_t>(traffic);
  return index < names.size() ? names[index] : "unknown direction";
}

}  // namespace v0
}  // namespace reef
