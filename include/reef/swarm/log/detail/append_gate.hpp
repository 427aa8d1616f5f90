#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/detail/log_rules.hpp>
#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/net/identity.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The certificate of a client of a log's server, as its connection has proved it.
struct ClientCertificate {
  Identity who{};
  std::string serial{};
};

/// The part of a log's server with TLS that lets entries into the log: those that the owner of the connection's
/// certificate has signed with the same certificate, that follow the entry which stands before, and that
/// why_not_append allows.
class AppendGate {
public:
  /// `files`: the server's, whose CA is the job's. The log outlives this object.
  AppendGate(const TlsFiles& files, DecisionLog& log);
  ~AppendGate();
  AppendGate(const AppendGate&) = delete;
  AppendGate& operator=(const AppendGate&) = delete;

  /// Notes a text that was read at an index of the log, so that the next append need not read it. Any thread.
  void note(LogIndex at, std::string_view text);

  /// Appends a text, or refuses to: `done` is given the answer, within the call or on a thread of the log.
  void append(const ClientCertificate& client, LogIndex at, std::string text, std::function<void(ServedAnswer)> done);

private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/append_gate.ipp>
#endif
