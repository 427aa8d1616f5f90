#include <reef/comm/link_probe.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/comm/functions.hpp>
#include <reef/profile/network.hpp>

namespace {

using namespace reef;

std::vector<std::pair<int, int>> links_of(int ranks) {
  std::vector<std::pair<int, int>> links;
  for (int rank = 0; rank < ranks; ++rank) {
    if (ranks > 1) links.emplace_back(rank, (rank + 1) % ranks);
  }
  return links;
}

/// A link of a machine that is busy may seem slower than it is, but not in each of many probes; none seems faster.
TEST(LinkProbe, finds_links_as_fast_as_they_are_and_all_ranks_find_the_same) {
  const comm::Communicator world;
  const int ranks = world.size();
  const auto cells = static_cast<std::size_t>(ranks * ranks);
  std::vector<double> bandwidth(cells, 1e12);
  if (ranks > 1) bandwidth[1] = 1e6;
  comm::ProgressOptions options;
  options.network = profile::Network{.devices = ranks, .latencies = std::vector<Seconds>(cells, 0.002), .rates = bandwidth};
  comm::Progress progress(world, options);
  const auto links = links_of(ranks);
  Seconds least_latency = 1;
  double rate = 0;  // of the slow link, as the probe that came closest has it
  const auto is_close = [&] {
    return ranks == 1 || (least_latency < 0.003 && std::abs(rate - 1e6) < 0.1e6);
  };
  for (int probe = 0; probe < 30; ++probe) {
    const auto found = comm::probe_links(progress, links, {.bytes = 200'000, .repeats = 5});
    ASSERT_EQ(found.size(), links.size());
    std::vector<double> all;
    for (std::size_t l = 0; l < links.size(); ++l) {
      EXPECT_GE(found[l].latency, 0.0019) << "half of there and back";
      if (links[l].first == 0) {
        EXPECT_LE(found[l].bytes_per_second, 2e6) << "but for what the small message took too long";
        least_latency = std::min(least_latency, found[l].latency);
        if (std::abs(found[l].bytes_per_second - 1e6) < std::abs(rate - 1e6))
          rate = found[l].bytes_per_second;
      }
      all.push_back(found[l].latency);
      all.push_back(found[l].bytes_per_second);
    }
    std::vector<double> of_first = all;
    comm::broadcast(progress, "what rank 0 found", 0, std::span(of_first));
    EXPECT_EQ(all, of_first);
    if (is_close()) break;  // on all ranks, as they have found the same
  }
  EXPECT_TRUE(is_close()) << "of 2 ms and 1e6 B/s from rank 0 to 1, the best of 30 probes found "
                          << least_latency << " s and " << rate << " B/s";
}

TEST(LinkProbe, refuses_links_and_messages_that_are_not_there) {
  const comm::Communicator world;
  comm::Progress progress(world, {});
  EXPECT_TRUE(comm::probe_links(progress, {}).empty());
  EXPECT_THROW(comm::probe_links(progress, {{0, world.size()}}), OptionError);
  EXPECT_THROW(comm::probe_links(progress, {{0, 0}}), OptionError);
  EXPECT_THROW(comm::probe_links(progress, {}, {.bytes = 1}), OptionError);
  EXPECT_THROW(comm::probe_links(progress, {}, {.repeats = 0}), OptionError);
}

}  // namespace
