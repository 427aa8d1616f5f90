#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <reef/schedule/simulate.hpp>

#include "programs.hpp"

namespace reef::test {

using schedule::Link;
using schedule::Machine;
using schedule::Simulation;
using schedule::World;

namespace {

void takes(Instruction& instruction, Seconds seconds) { instruction.cost.seconds = seconds; }

/// Rank 0 computes and sends, rank 1 receives and computes, `count` times.
std::vector<Program> pipeline(int count, Seconds first, Bytes bytes, Seconds second) {
  Writer a(0);
  Writer b(1);
  for (int i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    const StorageId x = a.storage("x" + name);
    takes(a.writes("Forward", Lane::compute, x), first);
    a.reads("Send", Lane::send, x).sends = {{1, bytes, static_cast<std::uint32_t>(i)}};
    const StorageId y = b.storage("y" + name);
    b.writes("Receive", Lane::receive, y).receives = {{0, bytes, static_cast<std::uint32_t>(i)}};
    takes(b.reads("Forward", Lane::compute, y), second);
  }
  return {a.program, b.program};
}

}  // namespace

TEST(Simulate, one_lane_takes_the_sum_of_its_instructions) {
  Writer w;
  const StorageId x = w.storage("x");
  takes(w.writes("A", Lane::compute, x), 2);
  takes(w.reads("B", Lane::compute, x), 3);
  const Simulation result = simulate(std::vector{w.program}, World::uniform(1, {}, {}));
  EXPECT_DOUBLE_EQ(result.step, 5);
  EXPECT_DOUBLE_EQ(result.total, 10);
  EXPECT_DOUBLE_EQ(result.utilisation[0], 1);
}

TEST(Simulate, lanes_without_a_common_value_run_at_once) {
  Writer w;
  takes(w.writes("A", Lane::compute, w.storage("x", 64, Life::reserved)), 2);
  takes(w.writes("B", Lane::load, w.storage("y", 64, Life::reserved)), 3);
  EXPECT_DOUBLE_EQ(simulate(std::vector{w.program}, World::uniform(1, {}, {})).total, 6);
  EXPECT_DOUBLE_EQ(simulate(std::vector{w.program}, World::uniform(1, {}, {}), 1).total, 3);
}

TEST(Simulate, a_message_takes_bytes_over_bandwidth_plus_latency_and_links_are_first_in_first_out) {
  // Two messages of 100 B over 100 B/s with 0.5 s latency: they arrive at 1 + 1 + 0.5 and one later.
  const auto programs = pipeline(2, 1, 100, 0);
  const Simulation result = simulate(programs, World::uniform(2, {}, Link{0.5, 100}), 1);
  std::vector<Seconds> arrivals;
  for (const auto& span : result.spans) {
    if (span.lane == Lane::receive) arrivals.push_back(span.end);
  }
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_DOUBLE_EQ(arrivals[0], 2.5);
  // The second send waits for the first to have arrived: a lane is in order.
  EXPECT_DOUBLE_EQ(arrivals[1], 4.0);
  EXPECT_EQ(result.wire_bytes[0], 200U);
  EXPECT_EQ(result.wire_bytes[1], 0U);
}

TEST(Simulate, a_pipeline_reaches_the_time_of_its_slowest_stage) {
  // The flow-shop formula: sum of stages + (n - 1) * slowest.
  const auto programs = pipeline(8, 1, 100, 3);
  const Simulation result = simulate(programs, World::uniform(2, {}, Link{0, 50}), 1);
  EXPECT_DOUBLE_EQ(result.total, 1 + 2 + 3 + 7 * 3.0);
}

TEST(Simulate, operations_take_the_time_of_their_machine) {
  Writer w;
  Instruction& compute = w.writes("A", Lane::compute, w.storage("x"));
  compute.cost.flops = 200;
  compute.cost.bytes = 10;
  Instruction& load = w.writes("B", Lane::load, w.storage("y", 64, Life::reserved));
  load.cost.bytes = 30;
  Machine machine{100, 10, 10, 0.25};
  const Simulation result = simulate(std::vector{w.program}, World::uniform(1, machine, {}), 1);
  EXPECT_DOUBLE_EQ(result.spans[0].end, 2);     // 200 / 100 exceeds 10 / 10
  EXPECT_DOUBLE_EQ(result.spans[1].end, 3.25);  // 0.25 + 30 / 10
}

TEST(Simulate, the_same_programs_give_the_same_spans) {
  const auto programs = pipeline(5, 0.3, 10, 0.7);
  const World world = World::uniform(2, {}, Link{0.1, 33});
  const Simulation a = simulate(programs, world);
  const Simulation b = simulate(programs, world);
  ASSERT_EQ(a.spans.size(), b.spans.size());
  for (std::size_t i = 0; i < a.spans.size(); ++i) {
    EXPECT_EQ(a.spans[i].begin, b.spans[i].begin);
    EXPECT_EQ(a.spans[i].instruction, b.spans[i].instruction);
  }
}

TEST(Simulate, refuses_what_is_no_world) {
  Writer w;
  Instruction& a = w.writes("A", Lane::compute, w.storage("x"));
  takes(a, 1);
  EXPECT_THROW(simulate(std::vector{w.program}, World::uniform(0, {}, {})), ScheduleError);
  EXPECT_THROW(simulate(std::vector{w.program}, World{{Machine{}}, {}}), ScheduleError);
  EXPECT_THROW(simulate(std::vector{w.program}, World::uniform(1, {}, {}), 0), ScheduleError);
  takes(a, std::nan(""));
  EXPECT_THROW(simulate(std::vector{w.program}, World::uniform(1, {}, {})), ScheduleError);
}

TEST(Simulate, refuses_programs_that_deadlock) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 2; ++rank) {
    Writer w(rank);
    w.reads("Send", Lane::send, w.storage("x", 64, Life::persistent)).sends = {{1 - rank, 96, 0}};
    w.writes("Receive", Lane::send, w.storage("y")).receives = {{1 - rank, 96, 0}};
    programs.push_back(std::move(w.program));
  }
  EXPECT_THROW(simulate(programs, World::uniform(2, {}, {})), ScheduleError);
}

}  // namespace reef::test
