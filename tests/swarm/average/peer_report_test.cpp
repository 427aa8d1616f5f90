#include <reef/swarm/average/peer_report.hpp>

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

namespace reef::swarm {
namespace {

using testing::HasSubstr;

/// The report of "a", in whose job "b", a name of odd letters, came and went.
PeerReport two_peers() {
  const PeerId a{"a", 0x5eed};
  const PeerId b{"b\"\\", 2};
  PeerReport report;
  report.id = a;
  report.job.job = "line\nbreak";
  report.job.rounds = 7;
  report.job.skipped = 1;
  report.job.epoch = 3;
  report.job.members = 1;
  report.job.committed = 30;
  report.job.holes = 2;
  report.job.quarantined = 4;
  report.job.peers = {{a, {{a, {1, 0}, std::nullopt}}, 6, 20}, {b, {{b, {1, 0}, core::LogTime{3, 5}}}, 4, 10}};
  report.seconds = 12.5;
  report.waited[static_cast<std::size_t>(core::WaitCause::commit)] = 0.25;
  report.sent = 1000;
  report.received = 5'000'000'000;
  return report;
}

TEST(PeerReport, as_json_says_all_that_it_has) {
  const io::Json json = to_json(two_peers());
  EXPECT_EQ(json.at("job"), "line\nbreak");
  EXPECT_EQ(json.at("peer"), "a/5eed");
  EXPECT_EQ(json.at("rounds"), 7);
  EXPECT_EQ(json.at("micro_batches").at("committed"), 30);
  EXPECT_EQ(json.at("waited").size(), core::wait_causes);
  EXPECT_EQ(json.at("waited").at("commit"), 0.25);
  EXPECT_EQ(json.at("received_bytes"), 5'000'000'000);
  const io::Json& peers = json.at("peers");
  ASSERT_EQ(peers.size(), 2U);
  EXPECT_EQ(peers.at(0).at("micro_batches"), 20);
  EXPECT_FALSE(peers.at(0).at("stays").at(0).contains("went"));
  EXPECT_EQ(peers.at(1).at("stays").at(0).at("went").at("round"), 5);
}

TEST(PeerReport, in_the_format_of_prometheus_escapes_labels_and_has_a_type_for_each_metric) {
  const std::string page = to_prometheus(two_peers());
  EXPECT_THAT(page, HasSubstr("# TYPE reef_swarm_rounds gauge\nreef_swarm_rounds 7\n"));
  EXPECT_THAT(page, HasSubstr("reef_swarm_micro_batches{state=\"hole\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("reef_swarm_peer_info{job=\"line\\nbreak\",peer=\"a\",incarnation=\"5eed\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("reef_swarm_contributed_micro_batches{peer=\"b\\\"\\\\\",incarnation=\"2\"} 10\n"));
  EXPECT_THAT(page, HasSubstr("reef_swarm_waited_seconds_total{cause=\"commit\"} 0.25\n"));
  EXPECT_THAT(page, HasSubstr("reef_swarm_received_bytes_total 5000000000\n"));
  EXPECT_TRUE(page.ends_with("\n"));
}

}  // namespace
}  // namespace reef::swarm
