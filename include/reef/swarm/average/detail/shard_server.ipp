#pragma once

#include <span>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/average/detail/shard_server.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE ShardServer::ShardServer(std::shared_ptr<const ShardFiles> files, Keepers& keepers, Endpoint& endpoint)
    : files_(std::move(files)), keepers_(keepers), endpoint_(endpoint) {
  if (files_) thread_ = make_thread("reef::swarm: the thread of training data", [this] { serve(); });
}

REEF_INLINE ShardServer::~ShardServer() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

REEF_INLINE void ShardServer::asked(const std::string& peer, const Frame& frame, const std::optional<Genesis>& job) {
  const WantShards want = want_shards_of(frame);
  if (!files_) return send(peer, frame_of(ShardAnswer{}));
  const std::scoped_lock lock(mutex_);
  const auto add = [&](Request request) {
    if (waiting_[peer] >= most_waiting) return;
    ++waiting_[peer];
    requests_.push_back(std::move(request));
  };
  if (!job || job->shards != files_->digest()) {
    add({peer, false, 0, true});
  } else {
    if (want.list) add({peer, true, 0, false});
    for (const std::uint32_t shard : want.shards) add({peer, false, shard, shard >= files_->list().digests.size()});
  }
  changed_.notify_all();
}

REEF_INLINE void ShardServer::send(const std::string& peer, Frame frame) {
  keepers_.post([this, peer, frame = std::move(frame)] {
    if (endpoint_.traffic(peer).queued < most_queued) static_cast<void>(endpoint_.send(peer, frame));
  });
}

REEF_INLINE void ShardServer::serve() {
  for (;;) {
    Request request;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !requests_.empty(); });
      if (ends_) return;
      request = std::move(requests_.front());
      requests_.pop_front();
      if (--waiting_[request.peer] == 0) waiting_.erase(request.peer);
    }
    send(request.peer, frame_of(answer_of(request)));
  }
}

REEF_INLINE ShardAnswer ShardServer::answer_of(const Request& request) const {
  if (request.nothing) return {};
  if (request.list) {
    const auto text = std::as_bytes(std::span(files_->text()));
    return {ShardAnswer::Kind::list, 0, std::make_shared<const std::vector<std::byte>>(text.begin(), text.end())};
  }
  try {
    return {ShardAnswer::Kind::shard, static_cast<std::uint32_t>(request.shard), files_->read(request.shard)};
  } catch (const Error&) {
    return {};  // a file that has gone: others may have it
  }
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
