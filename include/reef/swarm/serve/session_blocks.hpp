#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/swarm/core/session_message.hpp>
#include <reef/swarm/core/session_server.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// What a BlockServer computes with: some blocks of a model, and the caches of sessions. A function of rows of one's
/// own is served by a class derived from this one.
///
///     rows(session, step) = f(the rows of the session's cache and of the step)      the same bits on every server
///
/// | order  | calls come from one thread, one after the other                                                    |
/// | open   | before all else of a session; `blocks` are some of the server's, one behind the other              |
/// | run    | cuts each sequence's cache to CacheStep::keep, gathers by CacheStep::reorder, appends, and returns |
/// |        | as many rows as went in, (batch, rows, bytes of a row)                                             |
/// | errors | what is thrown ends the server                                                                     |
///
/// Models: ModelBlocks.
class SessionBlocks {
public:
  SessionBlocks() = default;
  virtual ~SessionBlocks() = default;
  SessionBlocks(const SessionBlocks&) = delete;
  SessionBlocks& operator=(const SessionBlocks&) = delete;

  virtual void open(const core::serve::OpenCache& session) = 0;
  virtual void cut(const std::string& session, std::int64_t length) = 0;
  virtual void close(const std::string& session) = 0;

  /// Computes steps, each of another session, and returns the rows of each.
  virtual std::vector<Bulk> run(std::span<const core::serve::Run> steps) = 0;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
