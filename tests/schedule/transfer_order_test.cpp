#include <reef/schedule/transfer_order.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/schedule/detail/matching.hpp>
#include <reef/schedule/hash.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>

#include "../support/pipeline_programs.hpp"
#include "../support/random_pipeline.hpp"
#include "programs.hpp"

namespace reef::test {
namespace {

using schedule::Completion;
using schedule::Link;
using schedule::World;
using testing::HasSubstr;

/// The programs run to their end where each lane takes one instruction after the other, and both ends of a message
/// have to be there.
bool lanes_end(const std::vector<Program>& programs) {
  std::vector<std::vector<bool>> done;
  std::vector<schedule::Dependencies> waits;
  for (const Program& program : programs) {
    done.emplace_back(program.round.size(), false);
    waits.push_back(schedule::derive(program, schedule::place(program)));
  }
  const auto started = [&](std::size_t r, std::size_t i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (programs[r].round[k].lane == programs[r].round[i].lane && !done[r][k]) return false;
    }
    return std::all_of(waits[r][i].begin(), waits[r][i].end(), [&](const auto& wait) {
      return wait.previous_round || done[r][wait.instruction];
    });
  };
  const auto ends = schedule::detail::match_messages(programs);
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [send, receive] : ends) {
      if (done[send.rank][send.instruction] || !started(send.rank, send.instruction) ||
          !started(receive.rank, receive.instruction)) {
        continue;
      }
      done[send.rank][send.instruction] = done[receive.rank][receive.instruction] = moved = true;
    }
    for (std::size_t r = 0; r < programs.size(); ++r) {
      for (std::size_t i = 0; i < programs[r].round.size(); ++i) {
        const Instruction& instruction = programs[r].round[i];
        if (!instruction.sends.empty() || !instruction.receives.empty()) continue;
        if (done[r][i] || !started(r, i)) continue;
        done[r][i] = moved = true;
      }
    }
  }
  return std::all_of(done.begin(), done.end(), [](const std::vector<bool>& of_rank) {
    return std::all_of(of_rank.begin(), of_rank.end(), [](bool one) { return one; });
  });
}

std::string complaint_about(const std::vector<Program>& programs) {
  try {
    schedule::verify(programs);
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

Seconds compute_ends(const std::vector<Program>& programs, const World& world) {
  Seconds end = 0;
  for (const auto& span : schedule::simulate(programs, world, 1).spans) {
    if (span.lane == Lane::compute) end = std::max(end, span.end);
  }
  return end;
}

}  // namespace

TEST(TransferOrder, posted_in_the_order_of_production_nothing_deadlocks_and_times_are_those_of_the_model) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPipeline random(seed);
    PipelinePrograms posted(random.pipeline, Completion::posted);
    const auto transfers = schedule::free_transfers(posted.programs, random.world);
    for (std::size_t t = 1; t < transfers.size(); ++t) {
      EXPECT_LE(transfers[t - 1].produced, transfers[t].produced);
    }
    const auto slots = PipelinePrograms::slots_of(
        posted.programs, transfers,
        schedule::transfer_slots(posted.programs, transfers, schedule::SlotUse::to_last_use));
    schedule::order_transfers(posted.programs, random.world);
    EXPECT_EQ(complaint_about(posted.programs), "");
    EXPECT_DOUBLE_EQ(compute_ends(posted.programs, random.world), random.free_makespan());

    PipelinePrograms rings(random.pipeline, Completion::posted, slots);
    schedule::order_transfers(rings.programs, random.world);
    EXPECT_EQ(complaint_about(rings.programs), "");
    EXPECT_DOUBLE_EQ(compute_ends(rings.programs, random.world), random.free_makespan());
  }
}

TEST(TransferOrder, held_receives_in_the_order_of_consumers_deadlock_where_verify_says_so) {
  int deadlocks = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPipeline random(seed);
    const PipelinePrograms held(random.pipeline, Completion::held);
    const std::string said = complaint_about(held.programs);
    EXPECT_EQ(said.empty(), lanes_end(held.programs)) << said;
    if (said.empty()) continue;
    EXPECT_THAT(said, HasSubstr("the programs deadlock:"));
    EXPECT_THAT(said, HasSubstr(" waits for the "));
    EXPECT_THAT(said, HasSubstr("rank "));
    ++deadlocks;
  }
  EXPECT_GT(deadlocks, 10);
  EXPECT_LT(deadlocks, 140);
}

TEST(TransferOrder, a_slot_too_few_costs_time_or_is_refused) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomPipeline random(seed);
    const PipelinePrograms posted(random.pipeline, Completion::posted);
    const auto transfers = schedule::free_transfers(posted.programs, random.world);
    auto slots = schedule::transfer_slots(posted.programs, transfers,
                                          schedule::SlotUse::to_last_use);
    const auto deepest = std::max_element(
        slots.of_edge.begin(), slots.of_edge.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (deepest == slots.of_edge.end() || deepest->second < 2) continue;
    for (std::size_t n = 0; n < transfers.size(); ++n) {
      const auto& t = transfers[n];
      const Instruction& receive = posted.programs[t.receiver].round[t.receive];
      const bool of_edge = posted.programs[t.sender].rank == deepest->first.from &&
                           posted.programs[t.receiver].rank == deepest->first.to &&
                           receive.index == deepest->first.index;
      if (of_edge) slots.of_transfer[n] %= deepest->second - 1;
    }
    const auto fewer = PipelinePrograms::slots_of(posted.programs, transfers, slots);
    PipelinePrograms rings(random.pipeline, Completion::posted, fewer);
    try {
      schedule::order_transfers(rings.programs, random.world);
    } catch (const ScheduleError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a slot is still in use"));
      ++changed;
      continue;
    }
    const bool refused = !complaint_about(rings.programs).empty();
    changed += refused || compute_ends(rings.programs, random.world) > random.free_makespan() ? 1 : 0;
  }
  EXPECT_GT(changed, 5) << "there are no more slots than there have to be";
}

TEST(TransferOrder, a_send_stays_behind_a_call_that_makes_what_it_sends) {
  // On rank 0 a held call of lane send encodes what is sent; another message is produced before it.
  Writer a(0);
  const StorageId x = a.storage("x");
  const StorageId coded = a.storage("coded");
  const StorageId y = a.storage("y");
  a.writes("Make", Lane::compute, x).cost.seconds = 5;
  a.moves("Encode", Lane::send, x, coded).cost.seconds = 1;
  const auto post = [](Instruction& i, int peer, std::uint32_t channel) {
    i.completion = Completion::posted;
    (i.lane == Lane::send ? i.sends : i.receives) = {{peer, 100, channel}};
  };
  post(a.reads("Send", Lane::send, coded), 1, 0);
  a.writes("MakeOther", Lane::compute, y).cost.seconds = 1;
  post(a.reads("SendOther", Lane::send, y), 1, 1);
  Writer b(1);
  for (const std::uint32_t channel : {1U, 0U}) {
    const StorageId z = b.storage("z" + std::to_string(channel));
    post(b.writes("Receive", Lane::receive, z), 0, channel);
    b.reads("Use", Lane::compute, z).cost.seconds = 1;
  }
  std::vector<Program> programs{a.program, b.program};
  const World world = World::uniform(2, {}, {});
  const auto transfers = schedule::free_transfers(programs, world);
  ASSERT_EQ(transfers.size(), 2U);
  EXPECT_DOUBLE_EQ(transfers[0].produced, 6) << "both are there then";
  EXPECT_DOUBLE_EQ(transfers[1].produced, 6);
  schedule::order_transfers(programs, world);
  EXPECT_EQ(complaint_about(programs), "");
}

TEST(TransferOrder, a_slot_that_is_still_in_use_is_refused_by_name) {
  // Slots in turn. Message 2 is produced before x, and x is read first: so the receive of 2, which comes ahead of
  // that of x, would come ahead of the reader of message 0 in the same slot.
  Writer a(0);
  for (std::uint32_t n = 0; n < 4; ++n) {
    const StorageId made = a.storage("made " + std::to_string(n));
    a.writes("Make", Lane::compute, made).cost.seconds = 1;
    Instruction& send = a.reads("Send", Lane::send, made);
    send.sends = {{1, 100, n}};
    send.completion = Completion::posted;
  }
  Writer b(1);
  const StorageId slots[] = {b.storage("slot 0"), b.storage("slot 1"), b.storage("x")};
  const auto receive = [&](std::uint32_t n, StorageId to) {
    Instruction& i = b.writes("Receive", Lane::receive, to);
    i.micro_batch = static_cast<int>(n);
    i.receives = {{0, 100, n}};
    i.completion = Completion::posted;
  };
  receive(0, slots[0]);
  receive(1, slots[1]);
  receive(3, slots[2]);
  b.reads("UseX", Lane::compute, slots[2]);
  b.reads("UseFirst", Lane::compute, slots[0]);
  receive(2, slots[0]);
  b.reads("UseSecond", Lane::compute, slots[1]);
  b.reads("UseThird", Lane::compute, slots[0]);
  std::vector<Program> programs{a.program, b.program};
  EXPECT_EQ(complaint_about(programs), "") << "as it is written, nothing is lost";
  try {
    schedule::order_transfers(programs, World::uniform(2, {}, {}));
    FAIL() << "nothing was refused";
  } catch (const ScheduleError& error) {
    EXPECT_THAT(error.what(), HasSubstr("UseFirst on lane compute would read what"));
    EXPECT_THAT(error.what(), HasSubstr("Receive(micro-batch 2)"));
    EXPECT_THAT(error.what(), HasSubstr("a slot is still in use"));
  }
}

TEST(TransferOrder, ends_of_two_kinds_are_refused) {
  Writer a(0);
  Writer b(1);
  Instruction& send = a.reads("Send", Lane::send, a.storage("x"));
  send.sends = {{1, 100, 0}};
  send.completion = Completion::posted;
  b.writes("Receive", Lane::receive, b.storage("y")).receives = {{0, 100, 0}};
  std::vector<Program> programs{a.program, b.program};
  try {
    schedule::order_transfers(programs, World::uniform(2, {}, {}));
    FAIL() << "nothing was refused";
  } catch (const ScheduleError& error) {
    EXPECT_THAT(error.what(), HasSubstr("are not both posted"));
  }
}

TEST(TransferOrder, a_lane_is_free_when_its_transfer_is_posted) {
  const auto pair = [](Completion completion) {
    Writer a(0);
    Writer b(1);
    const StorageId x = a.storage("x");
    a.writes("Make", Lane::compute, x).cost.seconds = 1;
    for (std::uint32_t n = 0; n < 3; ++n) {
      Instruction& send = a.reads("Send", Lane::send, x);
      send.sends = {{1, 100, n}};
      send.completion = completion;
      const StorageId y = b.storage("y" + std::to_string(n));
      Instruction& receive = b.writes("Receive", Lane::receive, y);
      receive.receives = {{0, 100, n}};
      receive.completion = completion;
      b.reads("Use", Lane::compute, y).cost.seconds = 0.5;
    }
    return std::vector{a.program, b.program};
  };
  const World world = World::uniform(2, {}, Link{5, 100});
  EXPECT_DOUBLE_EQ(compute_ends(pair(Completion::held), world), 1 + 3 * (1 + 5) + 0.5);
  EXPECT_DOUBLE_EQ(compute_ends(pair(Completion::posted), world), 1 + 3 * 1 + 5 + 0.5);
}

TEST(TransferOrder, what_writes_a_slot_waits_for_all_that_is_posted_from_it) {
  // The same tensor goes to two ranks; then its place is written again.
  std::vector<Program> programs;
  Writer a(0);
  const StorageId x = a.storage("x", 64, Life::reserved);
  a.writes("Make", Lane::compute, x).cost.seconds = 1;
  for (int peer : {1, 2}) {
    Instruction& send = a.reads("Send", Lane::send, x);
    send.sends = {{peer, 100, 0}};
    send.completion = Completion::posted;
  }
  a.writes("MakeAgain", Lane::compute, x).cost.seconds = 1;
  programs.push_back(a.program);
  for (int rank : {1, 2}) {
    Writer b(rank);
    Instruction& receive = b.writes("Receive", Lane::receive, b.storage("y"));
    receive.receives = {{0, 100, 0}};
    receive.completion = Completion::posted;
    programs.push_back(b.program);
  }
  World world = World::uniform(3, {}, Link{1, 0});
  world.links[1].latency = 30;  // from 0 to 1
  const auto waits = schedule::derive(programs[0], schedule::place(programs[0]));
  EXPECT_EQ(waits[3].size(), 2U);
  EXPECT_DOUBLE_EQ(compute_ends(programs, world), 1 + 30 + 1);
}

TEST(TransferOrder, only_transfers_are_posted) {
  Writer w;
  w.writes("Make", Lane::compute, w.storage("x")).completion = Completion::posted;
  EXPECT_THAT(complaint_about({w.program}), HasSubstr("is posted on lane compute"));
  Writer r;
  Instruction& receive = r.writes("Receive", Lane::receive, r.storage("y"));
  receive.receives = {{1, 96, 0}};
  receive.completion = Completion::posted;
  receive.after = {{r.storage("x", 64, Life::persistent), 0}};
  EXPECT_THAT(complaint_about({r.program, Writer(1).program}),
              HasSubstr("is posted, but is no transfer"));
  Program held = w.program;
  held.round[0].completion = Completion::held;
  EXPECT_NE(schedule::hash_of(std::vector{w.program}), schedule::hash_of(std::vector{held}));
}

}  // namespace reef::test
