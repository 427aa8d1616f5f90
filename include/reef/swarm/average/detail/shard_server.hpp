#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/detail/keepers.hpp>
#include <reef/swarm/average/detail/shard_frames.hpp>
#include <reef/swarm/average/shard_files.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/net/endpoint.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Gives shards of a peer's training data to others, which it reads on a thread of its own: a slow disk holds up no
/// beat.
///
/// | bounds | 32 answers to a peer wait to be read, and 32 MiB to be sent; what it asks for beyond is dropped, and to |
/// |        | be asked for again                                                                                     |
class ShardServer {
public:
  /// `files`: null, if this peer has nothing to give. `keepers`: post to the loop of `endpoint`; outlive this object.
  ShardServer(std::shared_ptr<const ShardFiles> files, Keepers& keepers, Endpoint& endpoint);
  ~ShardServer();
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;

  /// Answers a request, later. `job`: the genesis of the log, whose shards are asked for. On the loop's thread. Throws
  /// DecodeError for a frame that is no request.
  void asked(const std::string& peer, const Frame& frame, const std::optional<Genesis>& job);

private:
  struct Request {
    std::string peer{};
    bool list = false;
    std::size_t shard = 0;
    bool nothing = false;
  };

  void serve();
  [[nodiscard]] ShardAnswer answer_of(const Request& request) const;
  void send(const std::string& peer, Frame frame);

  static constexpr std::size_t most_waiting = 32;
  static constexpr Bytes most_queued = 32_MiB;

  std::shared_ptr<const ShardFiles> files_;
  Keepers& keepers_;
  Endpoint& endpoint_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> requests_{};                 // under mutex_, as what follows
  std::map<std::string, std::size_t> waiting_{};  // by peer
  bool ends_ = false;
  std::thread thread_;  // the last one: it uses all of the above
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/shard_server.ipp>
#endif
