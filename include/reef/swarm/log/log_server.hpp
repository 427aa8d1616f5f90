#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The settings of a LogServer: its address, folder and limits.
struct LogServerOptions {
  std::string listen = "127.0.0.1:0";  ///< ADDRESS:PORT, without TLS of this machine; port 0: any that is free
  std::filesystem::path folder;        ///< that of its LocalLog
  Seconds patience = 5;                ///< the wait for a server before this one to end
  std::size_t connections = 256;       ///< further ones are answered 503
  Seconds request_time = 30;           ///< the longest that a client may take to send a request, or to take an answer
  TlsFiles tls{};                      ///< a keeper's; empty: plain HTTP
  double rate = 200;                   ///< with TLS, requests a second of one certificate's name; more: 429
  /// Entries before the last checkpoint but one are dropped: who needed them has read them long since. Only of a
  /// ChainedLog's entries.
  bool cut = false;
  bool any_text = false;               ///< with TLS, entries of any text and presences of any key
};

/// A decision log and a Presence over HTTP: for the processes of one machine, or with TLS for all who have a
/// certificate of the job's CA. Its client is RemoteLog.
///
///     POST /v1/append    {"at": N, "entry": TEXT}             {"outcome": "won" | ..., "other": TEXT, "why": TEXT}
///     GET  /v1/entries?from=N&wait=S                          {"from": N, "entries": [TEXT, ...]}; with options.cut
///                                                             "from" is that of the first one that is kept, if above N
///     POST /v1/present   {"key": K, "value": V, "ttl": S}     {}
///     POST /v1/absent    {"key": K}                           {}
///     GET  /v1/presences                                      {"presences": [{"key": K, "value": V}, ...]}
///
/// | wait    | up to 25 s for an entry at N, where none stands yet                                              |
/// | who     | plain: anybody on this machine, nothing is encrypted, and nobody is asked for an identity. Other |
/// |         | addresses than 127.0.0.0/8 and ::1 are refused. Requests of web pages are refused (Host,         |
/// |         | Content-Type)                                                                                    |
/// | TLS     | mutual TLS 1.3: who has no certificate of the job's CA, or one that is expired or revoked, gets  |
/// |         | no byte of HTTP. All may read. A peer appends entries (entry_from_text) of which it is the       |
/// |         | author, in envelopes that it has signed and that follow the entry before (ChainedLog), and       |
/// |         | writes presences under its name; a client appends such rollbacks. Other writes are refused with  |
/// |         | 403                                                                                              |
/// | limits  | requests of 512 KiB, heads of 8 KiB; a slow client waits alone, and is dropped; 1024 presences.  |
/// |         | With TLS half of the connections may be of one name, half of the unknown, a quarter of the       |
/// |         | unknown at one address; more are closed. Refusals are {"error": TEXT} with 400, 403, 404, 405,   |
/// |         | 410 where an entry was deleted from the log, 413, 415, 429 or 503, which is also said where the  |
/// |         | log itself does not answer                                                                       |
/// | durable | of a folder: entries, as LocalLog's. Presences are in memory, and gone when the server restarts  |
/// | threads | one for all connections, and those of the log                                                    |
/// | errors  | OptionError: an address that is refused, is no address, or is in use; a certificate that is no   |
/// |         | keeper's; LocalLog's                                                                             |
///
/// \code
/// const swarm::LogServer server({.listen = "127.0.0.1:0", .folder = "job.log"});
/// const std::string url = server.url();  // "http://127.0.0.1:40123"
/// const swarm::TlsFiles keeper{"ca.pem", "keeper.pem", "keeper.key"};
/// const swarm::LogServer safe({.listen = "0.0.0.0:4100", .folder = "safe.log", .tls = keeper});
/// \endcode
class LogServer {
public:
  /// Serves the log of options.folder.
  explicit LogServer(const LogServerOptions& options);

  /// Serves a log and presences that are kept elsewhere, such as an EtcdLog, and outlive the server.
  LogServer(const LogServerOptions& options, DecisionLog& log, Presence& presence);

  /// Closes all connections; an append that was not answered may stand.
  ~LogServer();
  LogServer(const LogServer&) = delete;
  LogServer& operator=(const LogServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;

  /// Refuses certificates with these serial numbers from now on, connections that they have included.
  void set_revoked(std::vector<std::string> serials);

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
