#pragma once

#include <boost/asio/ip/address.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/log/detail/http_address.hpp>
#include <reef/swarm/net/detail/host_and_port.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE HttpAddress parse_address(std::string_view text, std::string_view who) {
  const std::size_t colon = text.rfind(':');
  const auto port = parse_number<std::uint16_t>(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    host = {};  // an address of IPv6 without brackets: its end is not to be told from a port
  }
  if (!port || host.empty() || host.find_first_of(" /@") != std::string_view::npos) {
    throw OptionError(who, ": ", in_quotes(text), " is no address.\n  fix: ADDRESS:PORT, such as 127.0.0.1:4100.");
  }
  return {std::string(host), *port, false};
}

REEF_INLINE HttpAddress parse_http_url(std::string_view url, std::string_view who) {
  constexpr std::string_view scheme = "http://";
  constexpr std::string_view safe = "https://";
  if (url.starts_with(safe)) {
    HttpAddress address = parse_http_url(concat(scheme, url.substr(safe.size())), who);
    address.tls = true;
    return address;
  }
  if (!url.starts_with(scheme)) {
    throw OptionError(who, ": ", in_quotes(url), " is no URL of a log.\n  fix: http://127.0.0.1:PORT.");
  }
  url.remove_prefix(scheme.size());
  if (url.ends_with('/')) url.remove_suffix(1);
  return parse_address(url, who);
}

REEF_INLINE std::string text_of(const HttpAddress& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return concat(six ? "[" : "", address.host, six ? "]:" : ":", address.port);
}

REEF_INLINE std::string url_of(const HttpAddress& address) {
  return concat(address.tls ? "https://" : "http://", text_of(address));
}

REEF_INLINE void require_safe(const HttpAddress& server, bool tls, std::string_view who, std::string_view instead) {
  const std::string url = in_quotes(url_of(server));
  if (!server.tls) {
    if (is_loopback(server.host)) return;
    throw OptionError(who, ": ", url,
                      " is another machine's.\n  why: nothing is encrypted, and nobody is asked for an identity.\n  "
                      "fix: ", instead);
  }
  if (!tls) {
    throw OptionError(who, ": ", url, " wants certificates.\n  why: its keeper asks who comes.\n  fix: the files of "
                      "swarm::Keys for this process, as TlsFiles; in a program, --keys DIR.");
  }
  boost::system::error_code error;
  boost::asio::ip::make_address(server.host == "localhost" ? "127.0.0.1" : server.host, error);
  if (error) {
    throw OptionError(who, ": ", url, " has a name, and names are not resolved.\n  fix: the address as a number, such "
                      "as https://10.0.0.1:4100.");
  }
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
