#include <reef/comm/link_probe.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/network_shape.hpp>

namespace {

using namespace reef;

std::vector<std::pair<int, int>> links_of(int ranks) {
  std::vector<std::pair<int, int>> links;
  for (int rank = 0; rank < ranks; ++rank) {
    if (ranks > 1) links.emplace_back(rank, (rank + 1) % ranks);
  }
  return links;
}

/// A link of a machine that is busy may seem slower than it is; none seems faster.
TEST(LinkProbe, finds_links_no_faster_than_they_are_and_all_ranks_find_the_same) {
  const comm::Communicator world;
  const int ranks = world.size();
  const auto cells = static_cast<std::size_t>(ranks * ranks);
  std::vector<double> bandwidth(cells, 1e12);
  if (ranks > 1) bandwidth[1] = 1e6;
  comm::ProgressOptions options;
  options.network = comm::NetworkShape(ranks, std::vector<Seconds>(cells, 0.002), bandwidth);
  comm::Progress progress(world, options);
  const auto links = links_of(ranks);
  const auto found = comm::probe_links(progress, links, {.bytes = 200'000, .repeats = 5});
  ASSERT_EQ(found.size(), links.size());
  std::vector<double> all;
  for (std::size_t l = 0; l < links.size(); ++l) {
    EXPECT_GE(found[l].latency, 0.0019) << "half of there and back";
    if (links[l].first == 0) {
      EXPECT_GT(found[l].bytes_per_second, 0) << "200 ms";
      EXPECT_LE(found[l].bytes_per_second, 2e6) << "but for what the small message took too long";
    }
    all.push_back(found[l].latency);
    all.push_back(found[l].bytes_per_second);
  }
  std::vector<double> of_first = all;
  comm::broadcast(progress, "what rank 0 found", 0, std::span(of_first));
  EXPECT_EQ(all, of_first);
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
