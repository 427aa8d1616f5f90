#include <reef/profile/network.hpp>

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/profile/network_json.hpp>

namespace {

using namespace reef;
using profile::Network;
using testing::HasSubstr;

Network read(const std::string& latencies, const std::string& rates, const std::string& more = "") {
  return profile::network_from_json(
      io::parse_json(
          "{\"latency_ms\": " + latencies + ", \"bandwidth_gbps\": " + rates + more + "}", "case"),
      "case");
}

std::string refusal(const std::string& latencies, const std::string& rates,
                    const std::string& more = "") {
  try {
    read(latencies, rates, more);
  } catch (const DecodeError& error) {
    return error.what();
  }
  return "read";
}

TEST(Network, a_case_is_read_in_seconds_and_bytes) {
  const Network network =
      read("[[0, 1], [2, 0]]", "[[7, 8], [0.8, 9]]", R"(, "devices": ["a", "b"])");
  EXPECT_EQ(network.devices, 2);
  EXPECT_DOUBLE_EQ(network.latency(1, 0), 2e-3);
  EXPECT_DOUBLE_EQ(network.rate(0, 1), 1e9);
  EXPECT_DOUBLE_EQ(network.time(1, 0, 1e8), 2e-3 + 1);
  EXPECT_EQ(network.name(1), "b");
  EXPECT_EQ(read("[[0]]", "[[0]]").name(0), "device 0");
  EXPECT_NO_THROW(network.validate());
}

TEST(Network, both_directions_are_averaged_each_figure_by_itself) {
  const Network network = read("[[0, 1], [3, 0]]", "[[0, 8], [24, 0]]");
  EXPECT_FALSE(network.is_symmetric());
  const Network averaged = network.averaged();
  EXPECT_TRUE(averaged.is_symmetric());
  EXPECT_DOUBLE_EQ(averaged.latency(0, 1), 2e-3);
  EXPECT_DOUBLE_EQ(averaged.rate(1, 0), 2e9);
  EXPECT_FALSE(read("[[0, 1], [1, 0]]", "[[0, 8], [24, 0]]").is_symmetric()) << "rates differ alone";
  EXPECT_FALSE(read("[[0, 1], [3, 0]]", "[[0, 8], [8, 0]]").is_symmetric()) << "latencies differ alone";
}

TEST(Network, the_first_devices_keep_their_links_and_names) {
  const Network all = read("[[0, 1, 2], [3, 0, 4], [5, 6, 0]]", "[[0, 1, 2], [3, 0, 4], [5, 6, 0]]",
                           R"(, "devices": ["a", "b", "c"])");
  const Network two = all.first(2);
  EXPECT_NO_THROW(two.validate());
  EXPECT_EQ(two.name(1), "b");
  EXPECT_EQ(two.latency(1, 0), all.latency(1, 0));
  EXPECT_EQ(two.rate(0, 1), all.rate(0, 1));
  EXPECT_EQ(all.first(3), all);
}

TEST(Network, uplinks_and_downlinks_are_of_all_devices_or_of_none) {
  const Network links = Network::uniform(3, 0.02, 1e6);
  EXPECT_EQ(links.latency(2, 0), 0.02);
  EXPECT_EQ(links.rate(0, 1), 1e6);
  EXPECT_FALSE(links.has_uplinks());
  EXPECT_FALSE(links.empty());
  EXPECT_TRUE(Network{}.empty());
  const Network homes = links.with_uplinks({1, 2, 3}, {4, 5, 6});
  EXPECT_EQ(homes.uplink(1), 2);
  EXPECT_EQ(homes.downlink(2), 6);
  EXPECT_EQ(homes.rates, links.rates);
  EXPECT_EQ(homes.without_uplinks(), links);
  EXPECT_NE(homes, links);
  const Network two = homes.first(2);
  EXPECT_NO_THROW(two.validate());
  EXPECT_EQ(two.uplinks, (std::vector<double>{1, 2}));
  EXPECT_EQ(two.downlinks, (std::vector<double>{4, 5}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, nan, infinite}) {
    EXPECT_THROW((void)links.with_uplinks({1, 1, bad}, {1, 1, 1}), OptionError) << bad;
    EXPECT_THROW((void)links.with_uplinks({1, 1, 1}, {bad, 1, 1}), OptionError) << bad;
  }
  EXPECT_THROW((void)links.with_uplinks({1, 1}, {1, 1, 1}), OptionError);
  EXPECT_THROW((void)links.with_uplinks({1, 1, 1}, {}), OptionError);
  EXPECT_THROW((void)links.with_uplinks({}, {1, 1, 1}), OptionError);
  for (const int devices : {0, -1}) EXPECT_THROW(Network::uniform(devices, 0, 1), OptionError);
  EXPECT_THROW(Network::uniform(2, infinite, 1), OptionError);
  EXPECT_THROW(Network::uniform(2, 0, nan), OptionError);
  EXPECT_THROW(Network::uniform(2, 0, 0.5), OptionError);
  EXPECT_THROW(Network::uniform(2, 0, 2e18), OptionError);
}

TEST(Network, what_cannot_be_is_refused_by_its_entry) {
  EXPECT_THAT(refusal("[[0, 1], [1, 0]]", "[[0, 1], [0, 0]]"),
              HasSubstr("bandwidth_gbps[1][0] is 0"));
  EXPECT_THAT(refusal("[[0, -1], [1, 0]]", "[[0, 1], [1, 0]]"),
              HasSubstr("latency_ms[0][1] is -1"));
  EXPECT_THAT(refusal("[[0, 1]]", "[[0, 1], [1, 0]]"), HasSubstr("latency_ms[0] has 2 numbers"));
  EXPECT_THAT(refusal("[[0]]", "[[0, 1], [1, 0]]"), HasSubstr("1 rows and bandwidth_gbps 2"));
  EXPECT_THAT(refusal("[]", "[]"), HasSubstr("no devices"));
  EXPECT_THAT(refusal("[[0]]", "[[0]]", R"(, "devices": 1000000)"),
              HasSubstr("devices says 1000000"));
  std::string million = "[[0, 1]";  // a square of as many would fit into no memory
  for (int row = 1; row < 1'000'000; ++row) million += ",[0]";
  EXPECT_THAT(refusal(million + "]", "[[0]]"),
              HasSubstr("latency_ms[0] has 2 numbers in a matrix of 1000000 rows"));
  Network network = read("[[0, 1], [1, 0]]", "[[0, 1], [1, 0]]");
  network.rates[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(network.validate(), OptionError);
  network.rates.pop_back();
  EXPECT_THROW(network.validate(), OptionError);
}

}  // namespace
