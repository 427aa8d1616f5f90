#pragma once

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

/// The servers of a RemoteLog, which serve one log, and the files by which they know who asks.
struct RemoteLogOptions {
  std::vector<std::string> servers{};  ///< http://127.0.0.1:PORT, or https://ADDRESS:PORT of each keeper
  TlsFiles tls{};                      ///< of who asks; for https
  Seconds time = 5;                    ///< for each call; then an append is `unknown`
};

/// The decision log and the presences of a LogServer of this machine, or of keepers: a program's
/// `--log http://127.0.0.1:PORT`, `--keepers https://10.0.0.1:4100,https://10.0.0.2:4100`.
///
/// | keepers | one after the other is asked until one answers: each attempt has 2 s where there are several       |
/// | https   | mutual TLS 1.3: a server must show the certificate of a keeper of the job                         |
/// | time    | `time` seconds for each call; then an append is `unknown`, and a page has `answered` false        |
/// | retries | within that time, after 20 ms, then twice as long each time; a watch without an end, up to 5 s    |
/// |         | apart. So a server may be killed and started again                                                |
/// | early   | where an earlier attempt may still arrive, `early` is said as `unknown`                           |
/// | errors  | OptionError from the constructor: no URL; http to another machine; https without files, to a name |
///
/// \code
/// #include <reef/swarm/log/blocking_log.hpp>
/// swarm::RemoteLog log("http://127.0.0.1:4100");
/// const std::vector<std::string> all = swarm::BlockingLog(log).read(0);
/// const swarm::TlsFiles files{"ca.pem", "a.pem", "a.key"};
/// swarm::RemoteLog kept({.servers = {"https://10.0.0.1:4100", "https://10.0.0.2:4100"}, .tls = files});
/// \endcode
class RemoteLog final : public DecisionLog, public Presence {
public:
  explicit RemoteLog(std::string_view url, Seconds time = 5);
  explicit RemoteLog(const RemoteLogOptions& options);
  ~RemoteLog() override;

  void append(LogIndex at, std::string entry, AppendDone done) override;
  void read(LogIndex from, ReadDone done) override;
  [[nodiscard]] LogWatch watch(LogIndex from, EntryFound found) override;

  void present(std::string key, std::string value, Seconds ttl, PresenceDone done) override;
  void absent(std::string key, PresenceDone done) override;
  void presences(std::function<void(Presences)> done) override;

private:
  struct State;
  std::unique_ptr<State> state_;
};

static_assert(decision_log<RemoteLog>);

namespace detail {

/// Return what the body of a LogServer's answer says. Throw DecodeError for a malformed body.
Appended decode_appended(std::string_view body);
LogPage decode_page(std::string_view body, LogIndex from);
Presences decode_presences(std::string_view body);

}  // namespace detail

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/remote_log.ipp>
#endif
