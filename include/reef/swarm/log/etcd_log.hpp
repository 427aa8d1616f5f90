#pragma once

#include <cstdint>
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

/// The addresses of an etcd cluster that keeps a job's log, and the job's name.
struct EtcdLogOptions {
  std::vector<std::string> keepers;  ///< http://ADDRESS:PORT of each member of the cluster, on this machine; or https
  std::string job;                   ///< 1 to 64 letters, digits, '.', '_' or '-'
  Seconds time = 5;                  ///< for each call; then an append is `unknown`
  TlsFiles tls{};            ///< a keeper's, for https; etcd shows the certificate of a keeper of the same CA
};

/// A replicated log and peers' presence keys, stored in etcd 3.4 or later: they survive the loss of any minority of
/// etcd's members.
///
/// | keys     | /reef/JOB/log/INDEX, 20 digits; /reef/JOB/presence/KEY under a lease                                |
/// | append   | one transaction: put, if there is no such key, and there is that of the index before                |
/// | read     | linearizable                                                                                        |
/// | watch    | etcd's watch wakes, what is given is read; besides, a read every 2 s, since watches of a keeper     |
/// |          | that has lost the others stay silent                                                                |
/// | time-out | `unknown`; within the time each attempt has 2 s, and the next one goes to another keeper. Where an  |
/// |          | earlier attempt may still arrive, `early` is said as `unknown`                                      |
/// | presence | leases of whole seconds, rounded up; one that ends late, or early after an election, is only a hint |
/// | who      | plain HTTP on this machine, or mutual TLS 1.3 by `tls`; other addresses are refused                |
/// | errors   | OptionError from the constructor: no keeper, an address of another machine, the name of the job   |
///
/// Source: etcd 3.4, api reference, the JSON gateway (/v3/kv/txn, /v3/kv/range, /v3/watch, /v3/lease).
///
/// \code
/// swarm::EtcdLog log({.keepers = {"http://127.0.0.1:2379"}, .job = "gpt2"});
/// log.append(0, R"({"kind":"genesis"})", [](const swarm::Appended&) {});
/// \endcode
class EtcdLog final : public DecisionLog, public Presence {
public:
  explicit EtcdLog(const EtcdLogOptions& options);
  ~EtcdLog() override;

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

static_assert(decision_log<EtcdLog>);

namespace detail {

/// Returns the outcome of an append of `entry` from the body of etcd's answer; throws DecodeError for a malformed body.
Appended decode_etcd_append(std::string_view body, LogIndex at, std::string_view entry);

/// Returns the log entries from the body of etcd's answer to a range request; `prefix` is that of the keys. Throws
/// DecodeError for a malformed body. Where an entry is missing, and a later one is there, the page is `damaged`.
LogPage decode_etcd_range(std::string_view body, LogIndex from, std::string_view prefix);

/// Returns the presence keys from the body of etcd's answer to a range request. Throws DecodeError for a malformed
/// body.
Presences decode_etcd_presences(std::string_view body, std::string_view prefix);

}  // namespace detail

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/etcd_log.ipp>
#endif
