#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/session_client.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The options of RowSessions: who asks, and for which model.
struct RowSessionsOptions {
  EndpointOptions net{};        ///< network settings; `name` must be no other process'
  std::string model{};          ///< a name of the weights and their form, that of BlockServerOptions
  std::string numerics{};       ///< the numerics class of this machine: servers of the same are preferred
  bool same_bits = false;       ///< true: servers of other classes are never asked; false: where no other has a block
  std::int64_t blocks = 0;      ///< blocks of the model
  Bytes row = 0;                ///< bytes of a row between two blocks
  std::int64_t max_length = 0;  ///< the most positions of a session
  Seconds answer = 10;          ///< silence of a server after which it is asked again, then replaced
  Seconds step = 600;           ///< the longest that a step takes, after which it fails
  int attempts = 32;            ///< repairs of one step, after which it fails
  Seconds avoid = 15;           ///< the first ban of a server that was at fault; twice as long with each time more
  std::function<void(const std::string&)> report{};  ///< is given a line for each repair; on the loop's thread
};

/// Sessions of one sequence each, or of a batch of sequences of one length, whose rows are computed by servers of
/// the store, one after the other for the blocks of a model. A server that is lost, silent or full is replaced, by a
/// replay of its blocks alone.
///
/// | bits   | of a session are the same whichever servers fail, as long as all are of one numerics class             |
/// | memory | the rows of all positions at each boundary between servers                                             |
/// | route  | the quickest chain by what servers announce and by round-trip times (core::SessionRouter); servers     |
/// |        | that were at fault only where nobody else has a block                                                  |
/// | moves  | between two steps, away from servers that end soon, and to a chain that is 1.2 times as fast or more,  |
/// |        | where that pays the replay                                                                             |
/// | thread | one thread may call at a time                                                                          |
/// | errors | OptionError: options, a session that is not open; Error: a step that fails, naming whom it waited for. |
/// |        | That session is then to be closed; others go on                                                        |
///
/// \code
/// #include <reef/swarm/log/remote_log.hpp>
/// // given: swarm::RowSessionsOptions options, swarm::Bulk rows
/// swarm::RemoteLog store("http://127.0.0.1:4100");
/// swarm::RowSessions sessions(options, store);
/// const int session = sessions.open();
/// const swarm::RowSessions::Step step{session, 0, 1, rows};
/// const auto answers = sessions.run(std::span(&step, 1));
/// \endcode
class RowSessions {
public:
  /// `store` outlives this object.
  RowSessions(RowSessionsOptions options, Presence& store);
  ~RowSessions();
  RowSessions(const RowSessions&) = delete;
  RowSessions& operator=(const RowSessions&) = delete;

  /// Opens a session of `batch` sequences; returns its number. Servers hear of it with its first step.
  int open(std::int64_t batch = 1);
  void close(int session);

  /// A step of a session: keep `keep` positions of each sequence, let sequence i go on from sequence reorder[i], or
  /// from itself if `reorder` is empty, and append `rows` to each, whose bytes are (batch, rows, bytes of a row).
  struct Step {
    int session = 0;
    std::int64_t keep = 0;
    std::int64_t rows = 0;
    Bulk bytes{};
    std::vector<std::int64_t> reorder{};
  };
  /// Runs a step of each of some sessions, and returns the rows behind the last block. Blocks until all are there.
  /// Throws OptionError for a step that cannot be, where none has begun; Error where a session fails: the others' steps
  /// are done.
  std::vector<Bulk> run(std::span<const Step> steps);

  /// Returns the number of positions that a session has.
  [[nodiscard]] std::int64_t length(int session) const;
  /// Returns the number of times that servers were replaced, or asked anew.
  [[nodiscard]] std::int64_t repairs() const;
  /// Returns the number of times that sessions have moved to other servers, none of which had failed.
  [[nodiscard]] std::int64_t moves() const;
  /// Returns the servers of a session, in the order of blocks; empty names where none is found yet.
  [[nodiscard]] std::vector<core::RouteHop> chain(int session) const;

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/client/row_sessions.ipp>
#endif
