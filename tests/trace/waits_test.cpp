#include <reef/trace/waits.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <reef/trace/report.hpp>

namespace {

using namespace reef;
using trace::Activity;
using trace::Role;

/// A recording that is written span by span.
struct Written {
  trace::Recording recording;

  explicit Written(int rank) {
    recording.rank = rank;
    recording.tracks = {"compute", "wire"};
  }
  void add(std::string name, Activity activity, Seconds begin, Seconds end, std::uint32_t id, std::uint32_t cause,
           std::uint64_t message = 0, Role role = Role::none, Bytes bytes = 0) {
    recording.names.push_back(std::move(name));
    const auto name_id = static_cast<trace::Name>(recording.names.size() - 1);
    const auto track = static_cast<std::uint16_t>(activity == Activity::compute ? 0 : 1);
    recording.spans.push_back({begin, end, bytes, message, id, cause, name_id, track, activity, role});
  }
};

/// It computes from 1 to 3, 5 to 6 and 9 to 10: twice it waited, the first time for a message, the second for a copy of one.
Written second_stage() {
  Written stage(1);
  stage.add("activation 0 'x' of micro-batch 0", Activity::communication, 0, 1, 1, 0, 7, Role::receives, 100);
  stage.add("Forward(1, micro-batch 0)", Activity::compute, 1, 3, 2, 1);
  stage.add("activation 0 'x' of micro-batch 1", Activity::communication, 2, 5, 3, 0, 8, Role::receives, 100);
  stage.add("Forward(1, micro-batch 1)", Activity::compute, 5, 6, 4, 3);
  stage.add("activation gradient 3 'x' of micro-batch 0", Activity::communication, 5.5, 8, 5, 0, 9, Role::receives, 50);
  stage.add("Upload(3, micro-batch 0)", Activity::copy, 8, 9, 6, 5);
  stage.add("Backward(1, micro-batch 0)", Activity::compute, 9, 10, 7, 6);
  return stage;
}

TEST(Waits, go_to_what_was_under_way_when_the_gap_began) {
  const trace::Waits waits = trace::waits_of(second_stage().recording, 0.5, 12);
  EXPECT_DOUBLE_EQ(waits.busy, 4);
  EXPECT_DOUBLE_EQ(waits.bubble(), 7.5 / 11.5);
  ASSERT_EQ(waits.waits.size(), 3U);
  EXPECT_EQ(waits.waits[0].what, "activation gradient") << "the copy of what came waited for it";
  EXPECT_DOUBLE_EQ(waits.waits[0].seconds, 3);
  EXPECT_EQ(waits.waits[1].what, "activation");
  EXPECT_DOUBLE_EQ(waits.waits[1].seconds, 2.5) << "half of one before the first, two before the second";
  EXPECT_EQ(waits.waits[1].times, 2U);
  EXPECT_EQ(waits.waits[2].what, "the end");
}

TEST(Waits, go_along_causes_no_further_than_into_what_had_begun_before_the_gap) {
  // Each of six is caused by the one before: whenever computation stops, one of them has begun last.
  const std::vector<std::string> names{"load", "activation", "copy", "gradient", "upload", "weights"};
  for (std::size_t begun = 0; begun < names.size(); ++begun) {
    Written stage(0);
    for (std::uint32_t k = 0; k < names.size(); ++k) {
      stage.add(names[k] + " 3", Activity::communication, k, k + 1, k + 1, k);
    }
    const Seconds stops = static_cast<Seconds>(begun) + 0.5;
    stage.add("Forward(0)", Activity::compute, 0, stops, 7, 0);
    stage.add("Forward(1)", Activity::compute, 6, 7, 8, 6);
    const trace::Waits waits = trace::waits_of(stage.recording, 0, 7);
    ASSERT_EQ(waits.waits.size(), 1U) << "computation stops at " << stops;
    EXPECT_EQ(waits.waits[0].what, names[begun]) << "computation stops at " << stops;
    EXPECT_DOUBLE_EQ(waits.waits[0].seconds, 6 - stops);
  }
}

/// Both ends of messages that leave and arrive at whole seconds, and computation between whole seconds.
std::vector<trace::Recording> drawn_recordings(std::uint64_t seed, int seconds) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  std::vector<Written> ranks{Written(0), Written(1), Written(2)};
  for (std::uint64_t message = 1; message <= 40; ++message) {
    const int from = below(3);
    const int to = (from + 1 + below(2)) % 3;
    const int leaves = below(seconds);
    const int arrives = leaves + 1 + below(seconds - leaves);
    const auto bytes = static_cast<Bytes>(1 + below(1000));
    ranks[static_cast<std::size_t>(from)].add("x", Activity::communication, leaves, arrives, 0, 0, message, Role::sends, bytes);
    ranks[static_cast<std::size_t>(to)].add("x", Activity::communication, leaves, arrives, 0, 0, message, Role::receives, bytes);
  }
  std::vector<trace::Recording> result;
  for (Written& rank : ranks) {
    for (int begin = below(3); begin < seconds;) {
      const int end = std::min(seconds, begin + 1 + below(3));
      rank.add("Forward", Activity::compute, begin, end, 0, 0);
      begin = end + below(4);
    }
    result.push_back(rank.recording);
  }
  return result;
}

TEST(Waits, and_messages_of_stretches_side_by_side_are_those_of_the_whole) {
  constexpr int seconds = 12;
  struct Sums {
    Seconds busy = 0;
    Seconds waited = 0;
    std::uint64_t messages = 0;
    Bytes bytes = 0;
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<trace::Recording> recordings = drawn_recordings(seed, seconds);
    const auto add = [&](Sums& sums, Seconds from, Seconds to) {
      for (const trace::Recording& recording : recordings) {
        const trace::Waits of_rank = trace::waits_of(recording, from, to);
        sums.busy += of_rank.busy;
        for (const trace::Wait& wait : of_rank.waits) sums.waited += wait.seconds;
      }
      for (const trace::LinkUse& link : trace::links_of(recordings, from, to)) {
        sums.messages += link.messages;
        sums.bytes += link.bytes;
      }
    };
    Sums whole;
    add(whole, 0, seconds + 1);
    EXPECT_EQ(whole.messages, 40U) << "seed " << seed;
    EXPECT_DOUBLE_EQ(whole.busy + whole.waited, 3 * (seconds + 1)) << "seed " << seed;
    for (int cut = 1; cut <= seconds; ++cut) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", cut at second " << cut);
      Sums parts;
      add(parts, 0, cut);
      add(parts, cut, seconds + 1);
      EXPECT_DOUBLE_EQ(parts.busy, whole.busy);
      EXPECT_DOUBLE_EQ(parts.waited, whole.waited);
      EXPECT_EQ(parts.messages, whole.messages);
      EXPECT_EQ(parts.bytes, whole.bytes);
    }
  }
}

TEST(Waits, are_of_the_stretch_that_is_asked_for) {
  const trace::Waits waits = trace::waits_of(second_stage().recording, 2, 5.5);
  EXPECT_DOUBLE_EQ(waits.busy, 1.5);
  ASSERT_EQ(waits.waits.size(), 1U);
  EXPECT_DOUBLE_EQ(waits.waits[0].seconds, 2);
  EXPECT_TRUE(trace::waits_of(trace::Recording{}, 0, 0).waits.empty());
}

TEST(Waits, of_messages_both_ends_are_known) {
  Written first(0);
  first.add("activation 0 'x' of micro-batch 0", Activity::communication, 0.25, 0.5, 1, 0, 7, Role::sends, 100);
  first.add("activation 0 'x' of micro-batch 1", Activity::communication, 2, 3, 2, 0, 8, Role::sends, 100);
  const std::vector<trace::Recording> both{first.recording, second_stage().recording};
  const std::vector<trace::LinkUse> links = trace::links_of(both, 0, 12);
  ASSERT_EQ(links.size(), 1U) << "who sent the gradient was not recorded";
  EXPECT_EQ(links[0].from, 0);
  EXPECT_EQ(links[0].to, 1);
  EXPECT_EQ(links[0].messages, 2U);
  EXPECT_EQ(links[0].bytes, 200U);
  EXPECT_DOUBLE_EQ(links[0].median, 3) << "of 0.75 and 3 s the later";

  trace::Report report;
  report.recordings = both;
  report.to = 12;
  const std::string page = trace::report_html(report);
  EXPECT_NE(page.find("What stages waited for"), std::string::npos);
  EXPECT_NE(page.find("activation gradient 3.000 s, 1 times"), std::string::npos);
  EXPECT_NE(page.find("Messages between ranks"), std::string::npos);
}

}  // namespace
