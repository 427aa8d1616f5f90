#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include <reef/comm/stop_request.hpp>
#include <reef/swarm/average/shard_files.hpp>

#include "options.hpp"

namespace reef_examples {

/// Returns the files of --data, or Reef's own sources, in the order in which they are read.
std::vector<std::filesystem::path> files_of(const JobOptions& options);

/// Returns the shards of a peer's data, which it gives to others; null for data beyond the limits of a list of shards.
std::shared_ptr<const reef::swarm::ShardFiles> shards_of(const PeerOptions& options);

/// Gets the data of --data-from-peers from the job's peers, and makes it this peer's. Blocks until all of it is there.
void fetch_data(PeerOptions& options, const reef::comm::StopRequest& stop);

}  // namespace reef_examples
