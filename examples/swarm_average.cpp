// Averages a vector among processes that come and go, with no Trainer: start it several times, with one log server.
//
//   reef-swarm log-server --listen 127.0.0.1:4100 --dir /tmp/log &
//   swarm-average http://127.0.0.1:4100 a & swarm-average http://127.0.0.1:4100 b
//
// Or with keepers, of the job `average`, and the folder of the keys of this peer: their URLs, with commas between, and
// behind the codec the folder. Behind the folder of the keys, which may be empty, one in which this peer keeps its
// weights every 4 rounds, and from which it begins when all have ended.
//
// links: reef::compiled_swarm

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/average/dense_parts.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace {

constexpr std::size_t numbers = 100'000;

/// The "gradient" of a micro-batch: any numbers that depend on its index alone.
void add_gradient(std::int64_t index, std::vector<float>& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += 1e-3F * static_cast<float>((index * 31 + static_cast<std::int64_t>(i)) % 97 - 48);
}

reef::swarm::TlsFiles tls_files(const std::filesystem::path& folder, const std::string& name) {
  return {folder / "ca.pem", folder / (name + ".pem"), folder / (name + ".key"), {}};
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace reef;
  if (argc < 3) {
    std::printf(
        "usage: swarm-average LOG-URL NAME [ROUNDS [FIRST-MEMBERS [MILLISECONDS-A-MICRO-BATCH [CODEC [KEYS "
        "[CHECKPOINTS]]]]]]\n");
    return 2;
  }
  const std::int64_t rounds = argc > 3 ? std::atoll(argv[3]) : 5;
  const std::int64_t first_members = argc > 4 ? std::atoll(argv[4]) : 1;
  const std::chrono::milliseconds duration(argc > 5 ? std::atoll(argv[5]) : 20);
  std::vector<float> weights(numbers);

  swarm::AveragingOptions options;
  options.genesis.job = "average";
  options.genesis.global_batch = 8;
  options.genesis.parameters = numbers;
  options.genesis.piece = 1 << 14;
  options.genesis.codec = argc > 6 ? argv[6] : "fp32";
  options.first_members = first_members;
  options.net.name = argv[2];
  options.net.listen = "127.0.0.1:0";
  const std::string keys = argc > 7 ? argv[7] : "";
  options.net.plain_loopback = keys.empty();
  if (!keys.empty()) options.net.tls = tls_files(keys, argv[2]);
  if (argc > 8) {
    options.genesis.checkpoint = 4;
    options.checkpoints = argv[8];
  }
  // Weights are all the state that there is: who joins later gets them from the others.
  options.state.read = [&](std::int64_t piece) {
    return swarm::dense_parts(weights, options.genesis.piece)[static_cast<std::size_t>(piece)];
  };
  options.state.write = [&](std::span<const swarm::Bulk> pieces, std::int64_t, std::int64_t) {
    swarm::read_dense_parts(pieces, weights);
  };
  options.report = [](const std::string& line) { std::printf("%s\n", line.c_str()); };

  swarm::RemoteLogOptions keepers;
  keepers.tls = options.net.tls;
  std::istringstream urls(argv[1]);
  for (std::string url; std::getline(urls, url, ',');) keepers.servers.push_back(url);
  swarm::RemoteLog kept(keepers);
  swarm::ChainedLog log(kept, {.tls = keepers.tls});
  swarm::AveragingPeer peer(options, log, kept);
  std::vector<float> sum(numbers);
  while (const std::optional<std::int64_t> done = peer.enter()) {
    if (*done >= rounds) break;
    std::fill(sum.begin(), sum.end(), 0.0F);
    std::vector<std::int64_t> indices;
    while (const std::optional<std::int64_t> index = peer.next()) {
      add_gradient(*index, sum);
      std::this_thread::sleep_for(duration);
      indices.push_back(*index);
      peer.computed();
    }
    peer.contribute(sum, static_cast<double>(indices.size()), 0, indices);
    const swarm::RoundSum total = peer.result(sum);
    if (!total.apply) continue;
    for (std::size_t i = 0; i < numbers; ++i) weights[i] -= sum[i] / static_cast<float>(total.weight);
  }
  if (const std::string why = peer.why_gone(); !why.empty()) throw Error(argv[2], " is out of the job: ", why, ".");
  peer.leave("all rounds are done");
  std::printf("%s has weights %.16s\n", argv[2],
              swarm::to_hex(swarm::sha256(std::as_bytes(std::span(weights)))).c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
