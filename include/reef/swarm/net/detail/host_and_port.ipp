#pragma once

#include <charconv>
#include <cstddef>
#include <system_error>

#include <boost/asio/ip/address.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/net/detail/host_and_port.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE std::pair<std::string, std::uint16_t> host_and_port(const std::string& address, const std::string& what) {
  const std::size_t colon = address.rfind(':');
  std::uint16_t port = 0;
  bool good = colon != std::string::npos && colon > 0 && colon + 1 < address.size();
  std::string host = good ? address.substr(0, colon) : std::string();
  if (good) {
    const char* end = address.data() + address.size();
    const auto [last, error] = std::from_chars(address.data() + colon + 1, end, port);
    good = error == std::errc() && last == end;
    const bool bracketed = host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    good = good && !host.empty() && (bracketed || host.find(':') == std::string::npos);
  }
  if (!good) {
    throw OptionError("reef::swarm: the ", what, " is \"", address,
                      "\".\n  fix: HOST:PORT or [HOST]:PORT, such as 127.0.0.1:7000.");
  }
  return {host, port};
}

REEF_INLINE bool is_loopback(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return error ? host == "localhost" : address.is_loopback();
}

REEF_INLINE std::string host_of_header(std::string_view value) {
  if (!value.starts_with('[')) return std::string(value.substr(0, value.find(':')));
  const std::size_t end = value.find(']');
  return end == std::string_view::npos ? std::string() : std::string(value.substr(1, end - 1));
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
