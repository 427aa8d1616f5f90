#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/detail/session_hop.hpp>
#include <reef/swarm/core/session_message.hpp>
#include <reef/swarm/core/session_route.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The options of a SessionClient: the session, and how long it waits before it looks for other servers.
struct SessionClientOptions {
  std::string session{};        ///< unique; servers know it by this name and a number
  std::string model{};          ///< digest of the model's weights
  std::int64_t blocks = 0;      ///< blocks of the model
  std::int64_t batch = 1;       ///< sequences, max_session_batch at most
  std::int64_t max_length = 0;  ///< the most positions of a sequence
  Bytes row = 0;                ///< bytes of a row
  Seconds answer =
      10;  ///< silence of a server after which it is asked again, and after as long again replaced
  Seconds route_again =
      1;  ///< wait before a route is asked for again, where there is none; doubled up to 16 times it
  int attempts = 32;   ///< repairs of one step, after which it fails
  Seconds step = 600;  ///< the longest that a step takes, after which it fails
};

/// What a SessionClient wants done.
namespace ask {
struct Send {
  std::string to{};
  SessionMessage message{};
};
/// Finds servers for these blocks, one after the other; answered by SessionClient::routed. `failed`: a server that is
/// replaced, and why; empty for the first route.
struct Route {
  BlockRange blocks{};
  std::string failed{};
  HopFailure why = HopFailure::lost;
};
/// The step is accepted: its new rows of each sequence, behind the last block.
struct Accepted {
  std::int64_t step = 0;
  Bulk rows{};
};
struct Failed {
  std::string why{};
};
using Action = std::variant<Send, Route, Accepted, Failed>;
}  // namespace ask

/// A client's side of a session over a chain of servers: a state machine without clock, sockets or threads.
///
/// | log     | the session is what its client has sent: rows at each boundary between servers, as steps left them    |
/// | step    | rows go from server to server; each also answers the client, which accepts the answers in the chain's  |
/// |         | order, where the checksums of what went in and what came out before agree                              |
/// | repair  | servers for the blocks of the failed one alone get its boundary's rows in one request; those that stay |
/// |         | are told of a new epoch first, and undo what the client has not accepted                               |
/// | move    | between two steps other servers may take the place of some, who need not have failed: as by a repair  |
/// | bits    | equal servers give equal rows: a session with failures has the bits of one without                     |
/// | bounded | attempts and seconds of a step; the error names whom it waits for                                      |
/// | memory  | rows of all positions at each boundary of the chain                                                    |
///
/// Source of the idea: Petals, arXiv 2312.08361, section 3.2; epochs, step numbers and checksums are this library's.
///
/// \code
/// swarm::core::SessionClient client({.session = "s", .model = "m", .blocks = 2, .max_length = 64, .row = 8});
/// auto actions = client.begin(0, {}, 1, std::make_shared<const std::vector<std::byte>>(8), 0.0);  // asks for a route
/// \endcode
class SessionClient {
public:
  /// Throws OptionError for sizes that are not positive, and for more sequences than a message has.
  explicit SessionClient(SessionClientOptions options);

  using Actions = std::vector<ask::Action>;

  /// Begins a step: keeps `keep` positions, reorders sequences, and appends `rows` positions with these bytes of shape
  /// (batch, rows, bytes of a row). Throws OptionError while a step is in progress, after a failure, and for sizes that
  /// do not fit.
  Actions begin(std::int64_t keep, std::vector<std::int64_t> reorder, std::int64_t rows, Bulk bytes,
                Seconds now);
  /// Throws what begin() would throw.
  void require_step(std::int64_t keep, const std::vector<std::int64_t>& reorder, std::int64_t rows,
                    const Bulk& bytes) const;
  /// Answers ask::Route: the servers for the blocks that it names; empty: there are none now.
  Actions routed(const BlockRange& blocks, const std::vector<RouteHop>& hops, Seconds now);
  Actions receive(const std::string& from, const SessionMessage& message, Seconds now);
  /// Replaces servers between two steps: those of `chain` that do the same blocks as now keep their rows, and others
  /// get all rows of their boundary with the next step. Nothing happens unless can_move(), and for hops that are not a
  /// chain of all blocks.
  Actions move(const std::vector<RouteHop>& chain, Seconds now);
  /// The connection to a server is lost.
  Actions lost(const std::string& server, Seconds now);
  Actions tick(Seconds now);
  /// Ends the session on all servers of the chain.
  Actions close();

  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  [[nodiscard]] std::int64_t repairs() const { return repairs_; }
  [[nodiscard]] std::int64_t moves() const { return moves_; }
  /// Returns the number of steps that were begun.
  [[nodiscard]] std::int64_t steps() const { return step_; }
  [[nodiscard]] bool is_idle() const { return !running_; }
  /// Returns true between two steps, where all servers of the chain are ready.
  [[nodiscard]] bool can_move() const;
  [[nodiscard]] std::vector<RouteHop> chain() const;
  /// Returns a sentence that says what the step waits for, and of whom; empty if there is none.
  [[nodiscard]] std::string waits_for() const;

private:
  using Hop = detail::SessionHop;

  void fail(std::size_t hop, HopFailure why, Seconds now, Actions& actions);
  static void ask_route(const Hop& hop, HopFailure why, Actions& actions);
  void route_later(Seconds now);
  void new_epoch(Seconds now, Actions& actions);
  void advance(Seconds now, Actions& actions);
  void send_step(std::size_t first, Actions& actions);
  void take_answers(Seconds now, Actions& actions);
  void end(std::string why, Actions& actions);
  [[nodiscard]] std::size_t first_unanswered() const { return detail::first_unanswered(hops_); }
  void forget(Hop& hop, Actions& actions);
  [[nodiscard]] Bulk rows_for(const Hop& hop) const;

  SessionClientOptions options_;
  std::vector<Hop> hops_;
  std::int64_t epoch_ = 0;
  std::int64_t step_ = 0;
  std::int64_t keep_ = 0;
  std::vector<std::int64_t> reorder_{};
  std::int64_t rows_ = 0;
  std::int64_t length_ = 0;
  bool running_ = false;
  std::string failed_{};
  std::size_t sent_to_ = 0;  // hops that the rows of the step are on their way to
  bool asked_again_ = false;
  int attempts_ = 0;
  int refusals_ = 0;
  std::int64_t repairs_ = 0;
  std::int64_t moves_ = 0;
  std::int64_t opened_ = 0;
  Seconds begun_ = 0;
  Seconds waiting_since_ = 0;
  Seconds route_at_ = 0;
  int route_attempts_ = 0;
  Bulk result_{};
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/session_client.ipp>
#endif
