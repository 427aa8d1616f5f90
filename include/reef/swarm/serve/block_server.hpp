#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <reef/core/units.hpp>
#include <reef/swarm/core/session_message.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/serve/session_blocks.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The options of a BlockServer, a process that computes blocks of a model for the sessions of others.
struct BlockServerOptions {
  EndpointOptions net{};        ///< network settings; `name` is this server's, `listen` where it is reached
  std::string advertise{};      ///< the address at which others reach the server; empty: where it listens
  std::string model{};          ///< a name of the weights and their form: sessions of others are refused
  BlockRange blocks{};          ///< the blocks that are served
  Bytes row = 0;                ///< bytes of a row between two blocks
  std::string numerics{};       ///< the numerics class of what computes
  std::int64_t positions = 1 << 14;  ///< positions of the cache of each block, of all sessions
  std::int64_t longest = 1024;  ///< the most positions of one sequence
  std::size_t rows = 256;       ///< rows of waiting steps that are computed together, at most
  Seconds idle = 600;           ///< a session without a message for so long is closed
  std::function<void(const std::string&)> report{};  ///< is given a line for what happens; on the loop's thread
};

/// A server of blocks: takes rows of sessions, computes them, and sends them to the next server and to the client. Its
/// address, blocks, speed and room stand in the store under a lease.
///
/// | batches | steps of several sessions that wait are computed together; rows do not know their neighbours |
/// | speed   | measured at the start, by rows of zeros, before the store says that the server is there; then by  |
/// |         | what it serves. With the rows that wait and the room that is left it is announced each second |
/// | lasts   | caches are this process' alone: where it ends, clients replay their sessions elsewhere       |
/// | threads | the loop of the endpoint, and one that computes                                              |
/// | sees    | all rows of its sessions, from which their texts may be recovered: for private swarms only   |
/// | errors  | OptionError of the constructor; what `blocks` throws ends the service: failed() says it      |
///
/// \code
/// #include <reef/swarm/log/remote_log.hpp>
/// // given: std::unique_ptr<swarm::SessionBlocks> blocks, swarm::BlockServerOptions options
/// swarm::RemoteLog store("http://127.0.0.1:4100");
/// swarm::BlockServer server(options, std::move(blocks), store);
/// const std::string address = server.address();
/// \endcode
class BlockServer {
public:
  /// Begins to serve. `store` outlives this object.
  BlockServer(BlockServerOptions options, std::unique_ptr<SessionBlocks> blocks, Presence& store);
  /// Takes the server out of the store, and ends its sessions.
  ~BlockServer();
  BlockServer(const BlockServer&) = delete;
  BlockServer& operator=(const BlockServer&) = delete;

  /// Returns true once the server's speed is measured, and the store is told that the server is there.
  [[nodiscard]] bool announced() const;
  /// Announces that the server ends soon: it takes no new sessions, clients leave, and drained() says when all have.
  void drain();
  /// Returns true if the server drains, and no session has a cache here.
  [[nodiscard]] bool drained() const;

  [[nodiscard]] std::string address() const;
  /// Returns the number of sessions that have a cache here.
  [[nodiscard]] std::size_t sessions() const;
  /// Returns why the service has ended; empty while it goes on.
  [[nodiscard]] std::string failed() const;

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/serve/block_server.ipp>
#endif
