#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Splits "HOST:PORT" or "[HOST]:PORT". Throws OptionError that names `what` for any other text.
std::pair<std::string, std::uint16_t> host_and_port(const std::string& address, const std::string& what);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/host_and_port.ipp>
#endif
