#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/served_session.hpp>
#include <reef/swarm/core/session_message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The options of a SessionServer: what it serves, and how much.
struct SessionServerOptions {
  std::string model{};               ///< digest of the model's weights
  BlockRange blocks{};               ///< the blocks that it holds
  Bytes row = 0;                     ///< bytes of a row
  std::int64_t positions = 1 << 16;  ///< positions of the cache of each block, of all sequences
  std::int64_t page = 64;            ///< positions of a page, which is of one sequence at one block
  std::int64_t longest = std::int64_t{1} << 40;  ///< the most positions of one sequence
  Seconds idle = 600;                ///< a session without a message for so long is closed
  std::size_t waiting = 64;          ///< the most messages of a session that wait for its step
};

/// What a SessionServer wants done.
namespace serve {
struct Send {
  std::string to{};
  SessionMessage message{};
};
/// Allocates the cache of a session: `pages` pages of each block.
struct OpenCache {
  std::string session{};
  BlockRange blocks{};
  std::int64_t batch = 1;
  std::int64_t max_length = 0;
};
/// Changes the cache of a session, and computes rows; then SessionServer::computed is called.
struct Run {
  std::string session{};
  CacheStep cache{};
  Bulk bytes{};
};
struct CutCache {
  std::string session{};
  std::int64_t length = 0;
};
struct CloseCache {
  std::string session{};
};
using Action = std::variant<Send, OpenCache, Run, CutCache, CloseCache>;
}  // namespace serve

/// The sessions of one server that computes blocks of a model for others: a state machine without clock, sockets,
/// threads or cache, which real servers and simulated ones run.
///
/// | order  | messages of a session that come while its step is computed wait for it                              |
/// | pages  | reserved at open for max_length: no step of an admitted session fails for room; of the session's    |
/// |        | own blocks alone, so that a chain that repairs have cut small takes no more than an uncut one       |
/// | evict  | the pages of a session go to others; for its client that is a failure like another                  |
/// | drain  | takes no new sessions; those that are open go on                                                    |
/// | closes | sessions that their client closes, or does not use for SessionServerOptions::idle seconds             |
///
/// \code
/// swarm::core::SessionServer server({.model = "m", .blocks = {0, 2}, .row = 8});
/// const auto actions = server.receive("client", swarm::OpenSession{"s", 1, "m", {0, 2}, 1, 64, 0}, 0.0);
/// \endcode
class SessionServer {
public:
  explicit SessionServer(SessionServerOptions options) : options_(std::move(options)) {}

  /// Hears of a message. `from`: a client, or the server before this one in a chain.
  std::vector<serve::Action> receive(const std::string& from, const SessionMessage& message,
                                     Seconds now);
  /// Notes the rows that came out of a Run.
  std::vector<serve::Action> computed(const std::string& session, const Bulk& rows, Seconds now);
  /// Gives the pages of a session to others.
  std::vector<serve::Action> evict(const std::string& session);
  /// Refuses new sessions from now on.
  void drain() { draining_ = true; }
  /// Closes sessions that nobody has used for long.
  std::vector<serve::Action> tick(Seconds now);

  /// Returns the number of sessions that have a cache.
  [[nodiscard]] std::size_t sessions() const;
  /// Returns the number of pages that sessions have reserved, of all blocks.
  [[nodiscard]] std::int64_t pages() const { return pages_; }
  /// Returns the number of positions that are free, of all blocks together.
  [[nodiscard]] std::int64_t room() const { return (capacity() - pages_) * options_.page; }

private:
  struct Open {
    ServedSession session;
    std::string client{};
    Seconds used = 0;
    bool computing = false;
    bool evicted = false;
    std::deque<std::pair<std::string, SessionMessage>> waiting{};
  };
  using Actions = std::vector<serve::Action>;

  void handle(Open& open, const SessionStep& step, Actions& actions);
  void handle(Open& open, const SessionEpoch& epoch, Actions& actions);
  void open(const std::string& from, const OpenSession& wanted, Seconds now, Actions& actions);
  void close(const std::string& session, Actions& actions);
  [[nodiscard]] std::int64_t pages_of(const OpenSession& open) const;
  [[nodiscard]] std::int64_t capacity() const {
    return options_.blocks.count() * (options_.positions / options_.page);
  }

  SessionServerOptions options_;
  std::map<std::string, Open> open_;
  std::int64_t pages_ = 0;
  bool draining_ = false;
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/session_server.ipp>
#endif
