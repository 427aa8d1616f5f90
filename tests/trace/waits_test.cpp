#include <reef/trace/waits.hpp>

#include <gtest/gtest.h>

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
