#include <reef/schedule/simulate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

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

TEST(Simulate, who_only_comes_after_a_value_holds_up_nobody_who_writes_it_next) {
  Writer w;
  const StorageId x = w.storage("x");
  takes(w.writes("A", Lane::compute, x), 1);
  Instruction& behind = w.program.add("Behind", Lane::load);
  behind.after = {{x, 0}};
  takes(behind, 5);
  takes(w.writes("B", Lane::compute, x), 2);
  EXPECT_DOUBLE_EQ(simulate(std::vector{w.program}, World::uniform(1, {}, {}), 1).total, 6);
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

namespace {

/// Rank r of two computes for so long, from what all have had to say before, and then says something to the other.
Program in_step(int rank, Seconds computes, bool collective) {
  Writer w(rank);
  const StorageId all = w.storage("all", 64, Life::persistent);
  const StorageId own = w.storage("own");
  takes(w.moves("Compute", Lane::compute, all, own), computes);
  Instruction& gather = w.reads("Gather", Lane::reduce, own);
  gather.writes = {{all, 1}};
  gather.sends = {{1 - rank, 10, 0}};
  gather.receives = {{1 - rank, 10, 0}};
  if (collective) {
    gather.collective =
        std::make_shared<const schedule::Collective>(schedule::Collective{{"both", {0, 1}}, {0, 1, 2}});
  }
  return std::move(w.program);
}

}  // namespace

TEST(Simulate, who_comes_last_to_a_collective_has_what_the_others_sent_and_waits_for_nobody) {
  const Link link{0.5, 100};  // 10 bytes take 0.1 s
  const Simulation result = simulate(std::vector{in_step(0, 2, true), in_step(1, 1, true)}, World::uniform(2, {}, link), 1);
  std::map<int, Seconds> ends;
  for (const auto& span : result.spans) {
    if (span.lane == Lane::reduce) ends[span.rank] = span.end;
  }
  EXPECT_DOUBLE_EQ(ends[0], 2 + 0.1) << "its own has left; the other's was there at 1.6";
  EXPECT_DOUBLE_EQ(ends[1], 2 + 0.1 + 0.5);
  // Rank 1 computes from 2.6 on and has sent by 3.7, rank 0 from 2.1 on and ends at 4.2.
  const Simulation two = simulate(std::vector{in_step(0, 2, true), in_step(1, 1, true)}, World::uniform(2, {}, link), 2);
  EXPECT_DOUBLE_EQ(two.step, 2 + 0.1) << "of the slowest rank alone";
}

TEST(Simulate, messages_that_are_no_collective_wait_for_both_ends) {
  const Link link{0.5, 100};
  const Simulation result =
      simulate(std::vector{in_step(0, 2, false), in_step(1, 1, false)}, World::uniform(2, {}, link), 2);
  EXPECT_DOUBLE_EQ(result.step, 2 + 0.1 + 0.5);
}

namespace {

constexpr int machines = 8;
constexpr Bytes bytes = 100;

/// Every rank sends to those of `to` and receives what is sent to it, all at once.
template <class To>
Seconds exchange(const Machine& machine, const Link& link, To&& to) {
  std::vector<Writer> writers;
  for (int rank = 0; rank < machines; ++rank) writers.emplace_back(rank);
  std::vector<schedule::Instruction*> sends;
  for (int rank = 0; rank < machines; ++rank) {
    Writer& w = writers[static_cast<std::size_t>(rank)];
    const StorageId x = w.storage("x", 64, Life::reserved);
    const StorageId y = w.storage("y", 64, Life::reserved);
    std::vector<schedule::Message> out;
    std::vector<schedule::Message> in;
    for (int step = 1; step < machines; ++step) {
      const int next = (rank + step) % machines;
      const int last = (rank + machines - step) % machines;
      if (to(rank, next)) out.push_back({next, bytes, 0});
      if (to(last, rank)) in.push_back({last, bytes, 0});
    }
    w.reads("Send", Lane::send, x).sends = out;
    w.writes("Receive", Lane::receive, y).receives = in;
  }
  std::vector<Program> programs;
  for (const Writer& w : writers) programs.push_back(w.program);
  return simulate(programs, World::uniform(machines, machine, link), 1).total;
}

Machine connected(double up, double down) {
  Machine machine;
  machine.uplink_bytes_per_second = up;
  machine.downlink_bytes_per_second = down;
  return machine;
}

const auto all_to_all = [](int, int) { return true; };

}  // namespace

TEST(Simulate, all_links_of_a_machine_share_its_uplink_and_downlink) {
  const Link link{0.5, 50};
  // 100 B over 50 B/s, to seven others.
  EXPECT_DOUBLE_EQ(exchange({}, link, all_to_all), 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(50, 50), link, all_to_all), 7 * 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(50, 0), link, all_to_all), 7 * 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(0, 50), link, all_to_all), 7 * 2 + 0.5);
  // One sends to all, or all to one: it is that one's connection that counts.
  const auto from_0 = [](int from, int) { return from == 0; };
  const auto to_0 = [](int, int to) { return to == 0; };
  EXPECT_DOUBLE_EQ(exchange(connected(50, 0), link, from_0), 7 * 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(0, 50), link, from_0), 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(50, 0), link, to_0), 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(0, 50), link, to_0), 7 * 2 + 0.5);
}

TEST(Simulate, a_message_passes_uplink_link_and_downlink_at_once_at_the_speed_of_the_slowest) {
  const auto one = [](int from, int to) { return from == 2 && to == 5; };
  EXPECT_DOUBLE_EQ(exchange(connected(100, 100), {0.5, 50}, one), 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(25, 100), {0.5, 50}, one), 4 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(100, 25), {0.5, 50}, one), 4 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(100, 100), {0.5, 0}, one), 1 + 0.5);
  // Slow links fill a fast uplink together: the seventh message enters its link at 6 x 0.25.
  const auto from_0 = [](int from, int) { return from == 0; };
  EXPECT_DOUBLE_EQ(exchange(connected(400, 400), {0.5, 50}, from_0), 2 + 0.5);
  EXPECT_DOUBLE_EQ(exchange(connected(400, 400), {0.5, 400}, from_0), 7 * 0.25 + 0.5);
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

TEST(Simulate, every_copy_over_the_link_has_its_latency_on_whatever_lane) {
  Writer w;
  w.writes("A", Lane::compute, w.storage("x")).cost = {.bytes = 30, .copies = 3};
  w.writes("B", Lane::load, w.storage("y", 64, Life::reserved)).cost = {.bytes = 30, .copies = 2};
  const Machine machine{100, 1000, 10, 0.25};
  const Simulation result = simulate(std::vector{w.program}, World::uniform(1, machine, {}), 1);
  std::map<Lane, Seconds> end;
  for (const auto& span : result.spans) end[span.lane] = span.end;
  EXPECT_DOUBLE_EQ(end[Lane::compute], 3 * 0.25 + 3);
  EXPECT_DOUBLE_EQ(end[Lane::load], 2 * 0.25 + 3);
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

TEST(Simulate, a_loop_runs_as_many_iterations_as_the_communication_leaves_time_for) {
  // iterations = max(0, ceil((m - k c) / c)): exchange m, micro-batch c, k of them before the loop.
  const Seconds c = 1;
  for (const Bytes m : {Bytes{0}, Bytes{1}, Bytes{4}, Bytes{5}, Bytes{8}, Bytes{9}}) {
    for (const int k : {0, 1, 4, 7}) {
      const std::vector<Program> programs{accumulating(0, k, c, 2 * m),
                                          accumulating(1, k, c, 2 * m)};
      const World world = World::uniform(2, {}, Link{0.5, 4});  // 0.5 s and 4 bytes a second
      const Seconds exchange = 0.5 + static_cast<double>(2 * m) / 4;
      const int iterations = std::max(0, static_cast<int>(std::ceil(exchange / c)) - k);
      const Simulation result = simulate(programs, world, 3);
      EXPECT_EQ(result.trip_counts, (schedule::TripCounts{{iterations}, {iterations}}))
          << m << " bytes, " << k;
      EXPECT_DOUBLE_EQ(result.step, std::max(exchange, (k + iterations) * c));
      EXPECT_DOUBLE_EQ(result.total, 3 * result.step);
    }
  }
}

TEST(Simulate, an_iteration_that_ends_with_the_communication_is_the_last) {
  const std::vector<Program> programs{accumulating(0, 0, 0.5, 8), accumulating(1, 0, 0.25, 8)};
  EXPECT_EQ(simulate(programs, World::uniform(2, {}, Link{0, 4})).trip_counts,
            (schedule::TripCounts{{4}, {8}}));
}

TEST(Simulate, a_slow_rank_gives_fewer_micro_batches_and_holds_nobody_up) {
  std::vector<Program> programs{accumulating(0, 0, 0, 400), accumulating(1, 0, 0, 400)};
  for (Program& program : programs) {
    for (Instruction& i : program.round) {
      if (i.kind != "Add") continue;
      i.cost.seconds = -1;
      i.cost.flops = 100;
    }
  }
  World world = World::uniform(2, {100, 0, 0, 0}, Link{0, 50});
  world.machines[1].flops_per_second = 25;
  const Simulation result = simulate(programs, world, 3);
  EXPECT_EQ(result.trip_counts, (schedule::TripCounts{{8}, {2}}));
  EXPECT_DOUBLE_EQ(result.step, 8);
  EXPECT_DOUBLE_EQ(result.utilisation[0], 1);
  EXPECT_DOUBLE_EQ(result.utilisation[1], 1);
}

TEST(Simulate, each_iteration_has_its_spans) {
  const std::vector<Program> programs{accumulating(0, 1, 1, 16), accumulating(1, 1, 2, 16)};
  const Simulation result = simulate(programs, World::uniform(2, {}, Link{0, 4}), 2);
  ASSERT_EQ(result.trip_counts, (schedule::TripCounts{{3}, {1}}));
  std::vector<std::pair<int, Seconds>> adds;
  for (const auto& span : result.spans) {
    if (span.rank == 0 && span.round == 1 && span.instruction == 4) {
      adds.emplace_back(span.iteration, span.begin);
    }
  }
  EXPECT_EQ(adds, (std::vector<std::pair<int, Seconds>>{{0, 5}, {1, 6}, {2, 7}}));
}

TEST(Simulate, a_replay_decides_the_iterations_and_a_limit_bounds_them) {
  std::vector<Program> programs{accumulating(0, 0, 1, 16), accumulating(1, 0, 1, 16)};
  const World world = World::uniform(2, {}, Link{0, 4});
  EXPECT_EQ(simulate(programs, world).trip_counts, (schedule::TripCounts{{4}, {4}}));
  const schedule::TripCounts replay{{7}, {0}};
  const Simulation replayed = simulate(programs, world, 2, replay);
  EXPECT_EQ(replayed.trip_counts, replay);
  EXPECT_DOUBLE_EQ(replayed.step, 7);
  programs[1].repeats[0].max = 3;
  EXPECT_EQ(simulate(programs, world).trip_counts, (schedule::TripCounts{{4}, {3}}));
  EXPECT_THROW(simulate(programs, world, 2, {{7}}), ScheduleError);
  EXPECT_THROW(simulate(programs, world, 2, {{7}, {}}), ScheduleError);
  EXPECT_THROW(simulate(programs, world, 2, {{7}, {-1}}), ScheduleError);
}

TEST(Simulate, a_loop_asks_when_all_that_its_body_waits_for_is_there) {
  // The body reads what the load lane brings after 3 s; what it runs until takes 2.
  Writer w;
  const StorageId brought = w.storage("brought");
  takes(w.writes("Until", Lane::update, w.storage("y")), 2);
  takes(w.writes("Bring", Lane::load, brought), 3);
  takes(w.reads("Work", Lane::compute, brought), 1);
  w.repeat_from(2, 0);
  EXPECT_EQ(simulate(std::vector{w.program}, World::uniform(1, {}, {})).trip_counts,
            (schedule::TripCounts{{0}}));
  takes(w.program.round[0], 4.5);
  const Simulation result = simulate(std::vector{w.program}, World::uniform(1, {}, {}), 1);
  EXPECT_EQ(result.trip_counts, (schedule::TripCounts{{2}}));
  EXPECT_DOUBLE_EQ(result.total, 5);
}

TEST(Simulate, an_iteration_is_complete_on_all_lanes_before_the_next) {
  Writer w;
  takes(w.writes("Until", Lane::update, w.storage("y")), 6);
  takes(w.writes("Batch", Lane::receive, w.storage("x")), 2);
  takes(w.writes("Work", Lane::compute, w.storage("z")), 1);
  w.repeat_from(1, 0);
  const Simulation result = simulate(std::vector{w.program}, World::uniform(1, {}, {}), 1);
  EXPECT_EQ(result.trip_counts, (schedule::TripCounts{{3}}));
  EXPECT_DOUBLE_EQ(result.total, 6);
}

TEST(Simulate, runs_the_iterations_that_are_expected_where_code_says_when_a_loop_ends) {
  Writer w;
  w.writes("Until", Lane::update, w.storage("y"));
  takes(w.writes("Work", Lane::compute, w.storage("z")), 2);
  w.repeat_from(1, 0);
  w.program.repeats[0].expected = 3;
  const auto trips = [&] { return simulate(std::vector{w.program}, World::uniform(1, {}, {}), 1).trip_counts; };
  EXPECT_EQ(trips(), (schedule::TripCounts{{3}}));
  EXPECT_DOUBLE_EQ(simulate(std::vector{w.program}, World::uniform(1, {}, {}), 1).total, 6);
  w.program.repeats[0].max = 2;
  EXPECT_EQ(trips(), (schedule::TripCounts{{2}}));
  w.program.repeats[0] = {1, 2, 0, 0, 4};
  takes(w.program.round[1], 0);
  EXPECT_EQ(trips(), (schedule::TripCounts{{4}}));
}

TEST(Simulate, refuses_a_loop_that_would_never_end) {
  std::vector<Program> programs{accumulating(0, 0, 0, 16), accumulating(1, 0, 1, 16)};
  const World world = World::uniform(2, {}, Link{0, 4});
  EXPECT_THROW(simulate(programs, world), ScheduleError);
  programs[0].repeats[0].max = 5;
  EXPECT_EQ(simulate(programs, world).trip_counts, (schedule::TripCounts{{5}, {4}}));

  Writer a(0);
  const StorageId sum = a.storage("sum", 64, Life::persistent);
  a.writes("Receive", Lane::receive, a.storage("x")).receives = {{1, 96, 0}};
  Instruction& add = a.program.add("Add", Lane::compute);
  add.accumulates = {{sum, 0}};
  takes(add, 1);
  a.repeat_from(1, 0);
  a.reads("Ask", Lane::send, sum).sends = {{1, 96, 1}};
  Writer b(1);
  const StorageId asked = b.storage("asked");
  b.writes("Receive", Lane::receive, asked).receives = {{0, 96, 1}};
  b.reads("Answer", Lane::send, asked).sends = {{0, 96, 0}};
  EXPECT_THROW(simulate(std::vector{a.program, b.program}, world), ScheduleError);
}

}  // namespace reef::test
