#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The settings of a LogServer: its address, folder and limits.
struct LogServerOptions {
  std::string listen = "127.0.0.1:0";  ///< ADDRESS:PORT of this machine alone; port 0: any free one
  std::filesystem::path folder;        ///< folder of its LocalLog, where the entries are stored
  Seconds patience = 5;                ///< seconds to wait for an earlier server on this folder to end
  std::size_t connections = 256;       ///< most open connections; further ones are answered 503
  Seconds request_time = 30;  ///< the longest time in seconds for a client to send a request, or to take an answer
};

/// A server of a LocalLog and of presence keys for the processes of one machine, over HTTP. Its client is RemoteLog.
///
///     POST /v1/append    {"at": N, "entry": TEXT}             {"outcome": "won" | ..., "other": TEXT, "why": TEXT}
///     GET  /v1/entries?from=N&wait=S                          {"from": N, "entries": [TEXT, ...]}
///     POST /v1/present   {"key": K, "value": V, "ttl": S}     {}
///     POST /v1/absent    {"key": K}                           {}
///     GET  /v1/presences                                      {"presences": [{"key": K, "value": V}, ...]}
///
/// | wait    | up to 25 s for an entry at N, where none stands yet                                          |
/// | who     | anybody on this machine: nothing is encrypted, and nobody is asked for an identity. Other    |
/// |         | addresses than 127.0.0.0/8 and ::1 are refused. Requests of web pages are refused (Host,     |
/// |         | Content-Type)                                                                                |
/// | limits  | requests of 512 KiB, heads of 8 KiB; connections; a slow client waits alone, and is dropped; |
/// |         | 1024 presences. Refusals are {"error": TEXT} with 400, 403, 404, 405, 413, 415 or 503        |
/// | durable | entries, as LocalLog's. Presences are in memory, and gone when the server restarts           |
/// | threads | one for all connections, and the LocalLog's                                                  |
/// | errors  | OptionError: an address that is refused, is no address, or is in use; LocalLog's             |
///
/// \code
/// const swarm::LogServer server({.listen = "127.0.0.1:0", .folder = "job.log"});
/// const std::string url = server.url();  // "http://127.0.0.1:40123"
/// \endcode
class LogServer {
public:
  explicit LogServer(const LogServerOptions& options);

  /// Closes all connections. An append that was not answered may stand in the log.
  ~LogServer();
  LogServer(const LogServer&) = delete;
  LogServer& operator=(const LogServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;

  struct State;

private:
  std::unique_ptr<State> state_;
};

/// Serves a log over HTTP until SIGINT or SIGTERM, as `reef-swarm log-server` does, and returns 0.
///
/// | prints | the port and a newline on `out`, when clients can connect                                       |
/// | who    | the main thread, before it has started others: the signals are blocked in all threads from then |
/// | errors | LogServer's                                                                                     |
///
/// \code
/// #include <iostream>
/// int main() { return swarm::serve_log({.listen = "127.0.0.1:4100", .folder = "job.log"}, std::cout); }
/// \endcode
int serve_log(const LogServerOptions& options, std::ostream& out);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/log_server.ipp>
#endif
