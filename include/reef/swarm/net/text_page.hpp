#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The options of a TextPage.
struct TextPageOptions {
  std::string listen = "127.0.0.1:0";  ///< ADDRESS:PORT of a loopback address; port 0: any that is free
  std::string path = "/metrics";
  std::string content_type = "text/plain; version=0.0.4; charset=utf-8";
  std::size_t head = 8192;       ///< bytes of a request's head, at most
  std::size_t connections = 16;  ///< connections at a time, at most; others are closed
  Seconds time = 10;             ///< of a connection, from its begin to its end
};

/// A page of text over HTTP/1.1 for programs of this machine, such as Prometheus: what a function returns when it is
/// asked.
///
/// | serves  | GET of the path, one request a connection, which then ends                                       |
/// | refuses | without a call of the function: another method (405), another path (404), a Host that is no      |
/// |         | loopback address nor localhost, against pages of the web whose name leads here (403), a head of  |
/// |         | too many bytes (431), what is no HTTP (400)                                                      |
/// | thread  | one, which calls the function; what the function throws is answered by 500 and its text          |
/// | errors  | OptionError: an address that is none, or not a loopback one; Error: a port that is taken         |
///
/// \code
/// const swarm::TextPage page({.listen = "127.0.0.1:0"}, [] { return std::string("rounds 7\n"); });
/// const std::string url = page.url();  // "http://127.0.0.1:40123/metrics"
/// \endcode
class TextPage {
public:
  TextPage(TextPageOptions options, std::function<std::string()> text);
  /// Ends all connections. The function is not called any more afterwards.
  ~TextPage();
  TextPage(const TextPage&) = delete;
  TextPage& operator=(const TextPage&) = delete;

  /// Returns the address that the page listens on, with its port.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::string url() const;

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/text_page.ipp>
#endif
