#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The address of an HTTP server.
struct HttpAddress {
  std::string host;  ///< an address without brackets, or "localhost", which is 127.0.0.1
  std::uint16_t port = 0;
  bool tls = false;  ///< the server is a keeper, and shows its certificate
  friend bool operator==(const HttpAddress&, const HttpAddress&) = default;
};

/// Parses "HOST:PORT" or "[ADDRESS]:PORT". Throws OptionError, which begins with `who`.
HttpAddress parse_address(std::string_view text, std::string_view who);

/// Parses "http://HOST:PORT" or "https://HOST:PORT", with or without a slash behind it. Throws OptionError, which
/// begins with `who`.
HttpAddress parse_http_url(std::string_view url, std::string_view who);

/// Returns an address as "HOST:PORT".
std::string text_of(const HttpAddress& address);

/// Returns an address as "http://HOST:PORT" or "https://HOST:PORT".
std::string url_of(const HttpAddress& address);

/// Throws OptionError, which begins with `who`, unless a server may be asked: with TLS one at any address that is a
/// number, else one of this machine alone. `tls`: there are files for TLS; `instead`: the fix where there is none.
void require_safe(const HttpAddress& server, bool tls, std::string_view who, std::string_view instead);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/http_address.ipp>
#endif
