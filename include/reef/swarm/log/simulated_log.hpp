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

/// How the network and the keepers of a SimulatedLog behave. Times are in seconds, chances from 0 to 1.
struct SimulatedLogOptions {
  std::uint64_t seed = 0;   ///< of all draws
  Seconds delay = 0.005;    ///< the mean of a message's delay, which is drawn from (0, 2 delay]
  Seconds time = 1;         ///< for each call; then an append is `unknown`
  double lost_request = 0;  ///< the chance that a request never arrives
  double lost_answer = 0;   ///< the chance that a request is carried out, and its answer never arrives
  double late = 0;          ///< the chance that an append arrives after its time, up to `latest` after it was made
  Seconds latest = 10;
};

/// The keepers of simulated logs: what stands, and all that is under way, by a clock that the caller moves.
///
/// | pure    | no thread, socket or clock: equal seeds and equal calls give equal bits. One thread        |
/// | order   | of events by time, then by the order in which they were made                               |
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

  /// Does all that happens up to a time, in order; callbacks come within. An earlier time than before does nothing.
  void advance(Seconds now);

  /// Returns the time of what happens next; nothing where nothing is under way.
  [[nodiscard]] std::optional<Seconds> next() const;
  [[nodiscard]] Seconds now() const;

  /// Takes the keepers away from all clients, or gives them back: what arrives at them meanwhile is lost.
  void set_away(bool away);

  /// Returns what stands.
  [[nodiscard]] std::vector<std::string> entries() const;

  struct State;

private:
  friend class SimulatedLog;
  std::shared_ptr<State> state_;
};

/// A decision log and presences of one client of SimulatedKeepers, which must outlive the client.
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
  /// `client` is the number of the client, by which its random sequence differs from others'.
  SimulatedLog(SimulatedKeepers& keepers, std::uint64_t client);
  ~SimulatedLog() override;

  void append(LogIndex at, std::string entry, AppendDone done) override;
  void read(LogIndex from, ReadDone done) override;
  [[nodiscard]] LogWatch watch(LogIndex from, EntryFound found) override;

  void present(std::string key, std::string value, Seconds ttl, PresenceDone done) override;
  void absent(std::string key, PresenceDone done) override;
  void presences(std::function<void(Presences)> done) override;

  /// Cuts this client off from the keepers, or gives it back: what arrives meanwhile, either way, is lost.
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
