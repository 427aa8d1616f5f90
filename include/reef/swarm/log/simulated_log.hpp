#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/presence.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The behaviour of the simulated network and server of a SimulatedLog. Times are in seconds, chances from 0 to 1.
struct SimulatedLogOptions {
  std::uint64_t seed = 0;   ///< seed of all random numbers
  Seconds delay = 0.005;    ///< the mean of a message's delay in seconds, which is drawn from (0, 2 delay]
  Seconds time = 1;         ///< time-out of each call, in seconds; after it an append's answer is `unknown`
  double lost_request = 0;  ///< the chance that a request never arrives
  double lost_answer = 0;   ///< the chance that a request is carried out, and its answer never arrives
  double late = 0;  ///< the chance that an append arrives after its time-out, up to `latest` seconds after it was made
  Seconds latest = 10;
};

/// The simulated server of SimulatedLog's clients: the stored entries and the messages in flight, by a virtual clock
/// that the caller advances.
///
/// | pure    | no thread, socket or clock: equal seeds and equal calls give equal bits. One thread        |
/// | order   | events by time, then by the order in which they were made                                  |
/// | quiet   | with no call open, and watches that have seen all, nothing is under way: next() is nothing |
///
/// \code
/// swarm::SimulatedKeepers keepers({.seed = 7, .lost_answer = 0.1});
/// swarm::SimulatedLog log(keepers, 0);
/// log.append(0, R"({"kind":"genesis"})", [](const swarm::Appended&) {});
/// while (keepers.next()) keepers.advance(*keepers.next());
/// \endcode
class SimulatedKeepers {
public:
  explicit SimulatedKeepers(const SimulatedLogOptions& options = {});
  ~SimulatedKeepers();
  SimulatedKeepers(const SimulatedKeepers&) = delete;
  SimulatedKeepers& operator=(const SimulatedKeepers&) = delete;

  /// Handles all messages up to a time, in order; callbacks run within the call. An earlier time than before does
  /// nothing.
  void advance(Seconds now);

  /// Returns the time of the next event; nothing where no message is in flight.
  [[nodiscard]] std::optional<Seconds> next() const;
  [[nodiscard]] Seconds now() const;

  /// Disconnects the server from all clients, or connects it again: messages that reach it meanwhile are lost.
  void set_away(bool away);

  /// Returns all entries of the log.
  [[nodiscard]] std::vector<std::string> entries() const;

  struct State;

private:
  friend class SimulatedLog;
  std::shared_ptr<State> state_;
};

/// A replicated log and presence keys, as one client of SimulatedKeepers, which must outlive the client.
///
/// The laws are those of DecisionLog, but one thread calls, and callbacks come within SimulatedKeepers::advance. What a
/// client sent before its end may still arrive.
///
/// \code
/// // given: swarm::SimulatedKeepers& keepers
/// swarm::SimulatedLog log(keepers, 3);  // of peer 3
/// log.set_cut_off(true);                // until it is given back, appends are `unknown`
/// \endcode
class SimulatedLog final : public DecisionLog, public Presence {
public:
  /// Constructs the client with number `client`, by which its random sequence differs from others'.
  SimulatedLog(SimulatedKeepers& keepers, std::uint64_t client);
  ~SimulatedLog() override;

  void append(LogIndex at, std::string entry, AppendDone done) override;
  void read(LogIndex from, ReadDone done) override;
  [[nodiscard]] LogWatch watch(LogIndex from, EntryFound found) override;

  void present(std::string key, std::string value, Seconds ttl, PresenceDone done) override;
  void absent(std::string key, PresenceDone done) override;
  void presences(std::function<void(Presences)> done) override;

  /// Disconnects this client from the server, or connects it again: messages that arrive meanwhile, either way, are
  /// lost.
  void set_cut_off(bool cut_off);

  struct Client;

private:
  std::shared_ptr<Client> client_;
};

static_assert(decision_log<SimulatedLog>);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/simulated_log.ipp>
#endif
