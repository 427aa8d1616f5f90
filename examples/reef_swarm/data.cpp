#include "data.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include <reef/core/text.hpp>
#include <reef/swarm/average/shard_fetch.hpp>

#include "../support/own_text.hpp"
#include "log.hpp"

namespace reef_examples {

namespace swarm = reef::swarm;

std::vector<std::filesystem::path> files_of(const JobOptions& options) {
  std::vector<std::filesystem::path> files(options.data.begin(), options.data.end());
  if (files.empty()) files = own_text().files;
  const bool is_of_pairs = std::any_of(files.begin(), files.end(),
                                       [](const std::filesystem::path& file) { return file.extension() == ".jsonl"; });
  if (!is_of_pairs) std::sort(files.begin(), files.end());  // as what reads them does
  return files;
}

std::shared_ptr<const swarm::ShardFiles> shards_of(const PeerOptions& options) {
  if (options.shards) return options.shards;
  const std::vector<std::filesystem::path> files = files_of(options.job);
  std::uintmax_t bytes = 0;
  for (const std::filesystem::path& file : files) {
    std::error_code unknown;
    if (const std::uintmax_t size = std::filesystem::file_size(file, unknown); !unknown) bytes += size;
  }
  constexpr reef::Bytes usual = swarm::ShardList{}.shard;
  if (bytes > swarm::max_shards * swarm::max_shard_bytes || files.size() > swarm::max_shard_files) return nullptr;
  const reef::Bytes shard = bytes > swarm::max_shards * usual ? swarm::max_shard_bytes : usual;
  return std::make_shared<const swarm::ShardFiles>(swarm::ShardFiles::of(files, shard));
}

void fetch_data(PeerOptions& options, const reef::comm::StopRequest& stop) {
  swarm::ShardFetchOptions fetch;
  fetch.net = options.network();
  fetch.net.job = options.job_name;
  fetch.folder = options.data_from_peers;
  fetch.report = [&options](const std::string& line) {
    std::fprintf(stderr, "%s\n", reef::concat(options.job.place.name, ": ", line).c_str());
  };
  fetch.stops = [&stop] { return stop.asked(); };
  JobLog log(options.job.place);
  options.shards = std::make_shared<const swarm::ShardFiles>(
      swarm::fetch_shards(fetch, log.entries(), log.presence()));
  for (const std::filesystem::path& file : options.shards->files()) options.job.data.push_back(file.string());
}

}  // namespace reef_examples
