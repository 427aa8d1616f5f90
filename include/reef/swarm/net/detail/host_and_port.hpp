#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Splits "HOST:PORT" or "[HOST]:PORT". Throws OptionError that names `what` for any other text.
std::pair<std::string, std::uint16_t> host_and_port(const std::string& address, const std::string& what);

/// Returns true if an address is one of this machine alone: 127.0.0.0/8, ::1, or "localhost".
bool is_loopback(const std::string& host);

/// Returns the host of a Host header, without its port and without brackets; empty where it is none.
std::string host_of_header(std::string_view value);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/host_and_port.ipp>
#endif
