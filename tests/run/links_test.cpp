// Tables of what links carry, and the seconds in which computation stood still.

#include <reef/run/links.hpp>
#include <reef/run/stalls.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace reef::test {
namespace {

using run::Flow;
using run::LinkTable;
using run::LinkUse;
using schedule::Lane;
using schedule::Traffic;

LinkUse use_of(std::uint64_t messages, Bytes bytes, Bytes raw) {
  LinkUse use;
  use.sent = {messages, bytes, 0};
  use.raw = raw;
  return use;
}

TEST(LinkTable, adds_up_over_ranks_and_is_taken_apart_by_moments) {
  const Flow ahead{Traffic::activation, 0, 1, {}};
  const Flow all{Traffic::gradient, -1, -1, "all ranks"};
  LinkTable first;
  first.uses[ahead] = use_of(2, 100, 400);
  first.uses[all] = use_of(1, 50, 50);
  first.uses[ahead].numbers = 4;
  first.uses[ahead].lost = 1;
  first.uses[ahead].exposed = 1.5;
  LinkTable second;
  second.uses[all] = use_of(3, 150, 150);
  second.uses[ahead].exposed = 0.25;
  LinkTable both = first;
  both += second;
  EXPECT_EQ(both.uses.at(all).sent, (comm::Cost{4, 200, 0}));
  EXPECT_EQ(both.uses.at(ahead).sent, (comm::Cost{2, 100, 0}));
  EXPECT_EQ(both.uses.at(ahead).exposed, 1.75);
  EXPECT_EQ(both.uses.at(ahead).ratio(), 4);
  EXPECT_EQ(both.uses.at(ahead).relative_error(), 0.5);
  EXPECT_EQ(both.uses.at(all).relative_error(), 0.0);
  EXPECT_EQ(both.of(Traffic::gradient).raw, 200U);
  EXPECT_EQ(both.of(Traffic::scalars).wire(), 0U);
  const LinkTable rest = both - first;
  EXPECT_EQ(rest.uses.at(all).sent, (comm::Cost{3, 150, 0}));
  EXPECT_EQ(rest.uses.at(ahead).exposed, 0.25);
  EXPECT_EQ(rest.uses.at(ahead).relative_error(), 0.0) << "nothing was encoded since";
}

TEST(LinkTable, does_not_hide_what_is_not_finite) {
  run::LinkUse use;
  use.numbers = 1;
  use.lost = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(use.relative_error().value()));
  use -= run::LinkUse{};
  EXPECT_TRUE(std::isnan(use.relative_error().value()));
}

TEST(LinkTable, says_nothing_of_an_error_that_was_measured_in_part) {
  LinkUse use = use_of(1, 10, 20);
  use.numbers = use.lost = 1;
  LinkUse other;
  other.unmeasured = true;
  EXPECT_EQ(use.relative_error(), 1.0);
  use += other;
  EXPECT_EQ(use.relative_error(), std::nullopt);
}

TEST(LinkTable, is_a_line_for_each_link_that_carried_something) {
  LinkTable table;
  table.uses[{Traffic::activation, 0, 1, {}}] = use_of(12, 1024, 4096);
  table.uses[{Traffic::activation_gradient, 1, 0, {}}].exposed = 1.5;
  table.uses[{Traffic::gradient, -1, -1, "stage 1"}] = {};  // nothing
  std::istringstream lines(table.text());
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) found.push_back(line);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].find("channel"), 0U);
  EXPECT_NE(found[1].find("0 -> 1"), std::string::npos);
  EXPECT_NE(found[1].find("4.00 KiB"), std::string::npos);
  EXPECT_NE(found[1].find("4.00  "), std::string::npos) << "the ratio";
  EXPECT_NE(found[2].find("1.500"), std::string::npos);
  EXPECT_EQ(found[0].size(), found[1].size());
  EXPECT_EQ(found[1].size(), found[2].size());
}

/// Receive, Upload, Forward; Reduce, Decide, Update.
schedule::Program small_program() {
  schedule::Program program;
  const auto with_message = [&](const char* kind, Lane lane) { program.add(kind, lane).receives.push_back({1, 64, 0, 1}); };
  with_message("Receive", Lane::receive);
  program.add("Upload", Lane::load);
  program.add("Forward", Lane::compute);
  with_message("Reduce", Lane::reduce);
  program.add("Decide", Lane::reduce);
  program.add("Update", Lane::update);
  return program;
}

TEST(Stalls, are_of_the_messages_behind_what_computation_waited_for) {
  run::Stalls stalls(small_program());
  stalls.begin_round();
  stalls.add(1, 0, 1, 3);    // the upload begins to wait before, and ends
  stalls.add(2, 1, 2, 3.5);  // before the forward does: half a second is the upload's own
  stalls.computed(5);
  stalls.add(5, 4, 4, 7);  // from 5 on nothing else computes; a decision comes with the reduction before it
  stalls.wait_for_end(3, 0.5);
  stalls.end_round();
  EXPECT_EQ(stalls.exposed(), (std::vector<Seconds>{1, 0, 0, 2.5, 0, 0}));
  stalls.begin_round();
  stalls.add(2, 0, 0, 0.25);
  stalls.computed(1);
  stalls.end_round();
  EXPECT_EQ(stalls.exposed(), (std::vector<Seconds>{1.25, 0, 0, 2.5, 0, 0})) << "rounds add up";
}

/// Clocks of threads that wait for each other may overlap by a little.
TEST(Stalls, of_lanes_that_wait_in_turn_come_to_an_end) {
  run::Stalls stalls(small_program());
  stalls.begin_round();
  stalls.add(1, 2, 0, 2);
  stalls.add(2, 1, 1, 3);
  stalls.computed(4);
  stalls.end_round();
  EXPECT_EQ(stalls.exposed(), std::vector<Seconds>(6, 0));
}

}  // namespace
}  // namespace reef::test
