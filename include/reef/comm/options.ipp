#pragma once

#include <algorithm>

#include <reef/comm/options.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE ProgressOptions checked(ProgressOptions options, int ranks) {
  const auto refuse = [](const std::string& why) {
    throw OptionError("reef::comm::ProgressOptions: ", why);
  };
  if (!is_finite(options.heartbeat) || options.heartbeat <= 0) {
    refuse("heartbeat must be a finite number above 0.");
  }
  const auto is_deadline = [](Seconds value) { return is_finite(value) && value >= 0; };
  if (!is_deadline(options.deadline) || !is_deadline(options.operation_deadline)) {
    refuse("a deadline is negative or no finite number.\n  fix: seconds, or 0 for none.");
  }
  if (options.piece_bytes < 1 || options.piece_bytes > (Bytes{1} << 30)) {
    refuse("piece_bytes must be from 1 B to 1 GiB.");
  }
  if (!options.network.empty()) {
    options.network.validate();
    if (options.network.devices < ranks) {
      refuse(concat("the network has links for ", options.network.devices, " ranks, but there are ",
                    ranks, "."));
    }
    if (options.transport == Transport::window) {
      refuse("an emulated network carries messages; leave transport unset.");
    }
  }
  if (options.deadline > 0) {
    options.heartbeat = (std::min)(options.heartbeat, options.deadline / 4);
    if (options.operation_deadline == 0) options.operation_deadline = 10 * options.deadline;
  }
  return options;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
