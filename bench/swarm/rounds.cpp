// Seconds of a round of swarm::AveragingPeer over emulated links, beside what bandwidth and latency bound. All
// peers run in this process, each with its own loop and connections over loopback, and with one log server.
//
//   rounds [PEERS [NUMBERS [MBIT/S [MILLISECONDS [ROUNDS [CODEC]]]]]]      4, 4194304, 100, 25, 9, fp32
//
// A round is from the last contribution to the last peer's result, median of all but the first two. Each peer sums the
// same share of the vector, so each link carries, in each direction, two of PEERS parts: a contribution and a result.

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/average/part_codec.hpp>
#include <reef/swarm/core/pieces.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>

namespace {

using namespace reef;
using Clock = std::chrono::steady_clock;

struct Job {
  int peers = 4;
  std::int64_t numbers = 1 << 22;
  double mbit = 100;
  double milliseconds = 25;
  int rounds = 9;
  std::string codec = "fp32";
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The times at which a round's last contribution was given, and its last result taken.
struct Span {
  Clock::time_point contributed{};
  Clock::time_point ended{};
};

/// What the peers of a job share.
struct Shared {
  explicit Shared(const Job& job) : spans(static_cast<std::size_t>(job.rounds)), all_here(job.peers) {}
  std::mutex mutex{};
  std::vector<Span> spans;
  std::barrier<> all_here;
};

swarm::AveragingOptions options_of(const Job& job, int peer) {
  swarm::AveragingOptions options;
  options.genesis.job = "rounds";
  options.genesis.global_batch = job.peers;
  options.genesis.parameters = job.numbers;
  // Each peer sums as many pieces as the others, of 1 to 4 MiB where the vector is large enough.
  const std::int64_t share = job.numbers / job.peers;
  options.genesis.piece = (std::max)(std::int64_t{4096}, share / (std::max)(std::int64_t{1}, share >> 18));
  options.genesis.codec = job.codec;
  options.first_members = job.peers;
  options.net.name = "p" + std::to_string(peer);
  options.net.listen = "127.0.0.1:0";
  options.net.plain_loopback = true;
  options.net.shape = [job](const std::string&) {
    return swarm::ShapedLink{job.milliseconds / 1e3, job.mbit * 1e6 / 8};
  };
  return options;
}

void average(const Job& job, int peer, const std::string& url, Shared& shared) {
  swarm::RemoteLog log(url);
  swarm::AveragingPeer averaging(options_of(job, peer), log, log);
  std::vector<float> sum(static_cast<std::size_t>(job.numbers));
  for (Span& span : shared.spans) {
    if (!averaging.enter()) break;
    std::fill(sum.begin(), sum.end(), 1.0F);
    shared.all_here.arrive_and_wait();
    std::vector<std::int64_t> indices;
    while (const std::optional<std::int64_t> index = averaging.next()) {
      indices.push_back(*index);
      averaging.computed();
    }
    averaging.contribute(sum, static_cast<double>(indices.size()), 0, indices);
    const Clock::time_point contributed = Clock::now();
    averaging.result(sum);
    const Clock::time_point ended = Clock::now();
    const std::lock_guard lock(shared.mutex);
    span.contributed = (std::max)(span.contributed, contributed);
    span.ended = (std::max)(span.ended, ended);
  }
  averaging.leave("all rounds are done");
}

/// Returns the seconds of an append to the log, median of 32.
double append_seconds(const std::string& url) {
  swarm::RemoteLog log(url);
  swarm::BlockingLog blocking(log);
  std::vector<double> seconds;
  for (int i = 0; i < 32; ++i) {
    const Clock::time_point begin = Clock::now();
    blocking.append(static_cast<swarm::LogIndex>(i), R"({"kind":"none"})");
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return median(seconds);
}

}  // namespace

int main(int argc, char** argv) try {
  Job job;
  if (argc > 1) job.peers = (std::max)(2, std::atoi(argv[1]));
  if (argc > 2) job.numbers = (std::max)(std::int64_t{1}, static_cast<std::int64_t>(std::atoll(argv[2])));
  if (argc > 3) job.mbit = std::atof(argv[3]);
  if (argc > 4) job.milliseconds = std::atof(argv[4]);
  if (argc > 5) job.rounds = (std::max)(3, std::atoi(argv[5]));
  if (argc > 6) job.codec = argv[6];

  std::string folder = (std::filesystem::temp_directory_path() / "reef-rounds-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  double append = 0;
  {
    const swarm::LogServer server({.listen = "127.0.0.1:0", .folder = folder + "/append"});
    append = append_seconds(server.url());
  }
  Shared shared(job);
  {
    const swarm::LogServer server({.listen = "127.0.0.1:0", .folder = folder + "/log"});
    std::vector<std::jthread> threads;
    for (int peer = 0; peer < job.peers; ++peer)
      threads.emplace_back([&, peer] { average(job, peer, server.url(), shared); });
  }
  std::filesystem::remove_all(folder);

  std::vector<double> seconds;
  for (std::size_t round = 2; round < shared.spans.size(); ++round) {
    const Span& span = shared.spans[round];
    seconds.push_back(std::chrono::duration<double>(span.ended - span.contributed).count());
  }
  const double bytes = static_cast<double>(job.numbers) * 4 * 2 / job.peers;
  const double bound = bytes / (job.mbit * 1e6 / 8);
  const double least = bound + 2 * job.milliseconds / 1e3;
  const double taken = median(seconds);
  std::printf("%d peers, %.1f MB of fp32 as %s, links of %.0f Mbit/s and %.0f ms\n", job.peers,
              static_cast<double>(job.numbers) * 4e-6, job.codec.c_str(), job.mbit, job.milliseconds);
  std::printf("round        %8.3f s, median of %zu\n", taken, seconds.size());
  std::printf("bandwidth    %8.3f s of fp32, %8.3f s with the latency of a contribution and a result\n", bound, least);
  std::printf("append       %8.3f s, median of 32\n", append);
  std::printf("ratio        %8.2f of bandwidth, %8.2f of bandwidth, latencies and one append\n", taken / bound,
              taken / (least + append));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
