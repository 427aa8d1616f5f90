#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/swarm/average/shard_files.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The options of fetch_shards.
struct ShardFetchOptions {
  EndpointOptions net{};           ///< name of this peer, job and keys; it listens nowhere
  std::filesystem::path folder{};  ///< where the files are kept (ShardFiles::in)
  Seconds answer = 10;     ///< of a request: then its shards are asked of others, and the holder is left alone as long
  Seconds deadline = 120;  ///< without the log's first entry, the list, or one more shard: then fetch_shards throws
  std::function<void(const std::string&)> report{};  ///< is given a line where something happens; the caller's thread
  std::function<bool()> stops{};                     ///< asked at least every 0.1 s; true: fetch_shards throws
};

/// Fetches the training data of a job from its peers (AveragingOptions::shards), several at once, and returns it when
/// all of it is in the folder. What is there already, of an earlier attempt, is kept.
///
/// | trusts | the log's genesis alone: a list or a shard with another digest is refused, and its sender asked no more |
/// | holder | one that is lost or slow costs the shards that it was asked for, which others are asked for             |
/// | memory | at most four shards for each holder                                                                     |
/// | blocks | until all is there; each wait has a deadline                                                            |
/// | errors | OptionError: a job whose first peer gives no data, a folder with other files; Error: nothing new came   |
/// |        | until the deadline, of whom it was asked and what became of that; FileError: a disk that is full        |
///
/// \code
/// // given: swarm::RemoteLog& log, swarm::AveragingOptions& options
/// swarm::ShardFetchOptions fetch;
/// fetch.net = options.net;
/// fetch.folder = "data";
/// options.shards = std::make_shared<swarm::ShardFiles>(swarm::fetch_shards(fetch, log, log));
/// \endcode
ShardFiles fetch_shards(const ShardFetchOptions& options, DecisionLog& log, Presence& presence);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/shard_fetch.ipp>
#endif
