#include <reef/schedule/placement.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <reef/schedule/dependencies.hpp>

#include "programs.hpp"

namespace reef::test {

using schedule::Placement;

namespace {

/// 900 of all kinds.
Program random_of_all(std::uint64_t seed) {
  if (seed < 300) return random_program(seed);
  return seed < 600 ? random_loops(seed) : random_storages(seed);
}

/// The waits of a program whose regions all have bytes of their own.
schedule::Dependencies waits_without_sharing(Program program) {
  for (schedule::Storage& storage : program.storages) {
    if (storage.life == Life::round) storage.life = Life::reserved;
  }
  return schedule::derive(program, schedule::place(program));
}

/// Whether two regions have bytes in common, and which they have.
testing::AssertionResult share_bytes(const Program& program, StorageId a, StorageId b) {
  const Placement placement = schedule::place(program);
  const bool shared = schedule::overlap(program, placement, a, b);
  auto result = shared ? testing::AssertionSuccess() : testing::AssertionFailure();
  for (const StorageId each : {a, b}) {
    const schedule::Storage& storage = program.storages[each];
    result << "'" << storage.name << "' has " << storage.bytes << " bytes from "
           << placement.offset[each] << " on; ";
  }
  return result;
}

/// The offsets that placing means: each region, in its order, is compared with all before it.
std::vector<Bytes> offsets_by_comparing_all(const Program& program) {
  const schedule::detail::Lifetimes lifetimes(program);
  std::vector<StorageId> regions;
  for (StorageId id = 0; id < program.storages.size(); ++id) {
    if (program.storages[id].parent == schedule::no_storage && lifetimes.alive(id)) {
      regions.push_back(id);
    }
  }
  const auto of_round = [&](StorageId id) { return program.storages[id].life == Life::round; };
  std::stable_sort(regions.begin(), regions.end(), [&](StorageId a, StorageId b) {
    if (of_round(a) != of_round(b)) return of_round(b);
    if (!of_round(a)) return false;
    const Bytes first = program.storages[a].bytes;
    const Bytes second = program.storages[b].bytes;
    return first != second ? first > second : lifetimes.of(a).first < lifetimes.of(b).first;
  });
  std::vector<Bytes> offsets(program.storages.size());
  std::vector<StorageId> placed;
  for (const StorageId id : regions) {
    std::vector<ByteRange> taken;
    for (const StorageId other : placed) {
      if (!lifetimes.meet(id, other)) continue;
      taken.push_back({offsets[other], offsets[other] + program.storages[other].bytes});
    }
    offsets[id] =
        program.storages[id].bytes == 0 ? 0 : first_fit(taken, program.storages[id].bytes);
    placed.push_back(id);
  }
  return offsets;
}

/// A rank's micro-batches, as a pipeline writes them: what is read comes ahead of what computes, and
/// some of them are of other sizes.
Program micro_batches(int count) {
  Writer w;
  const StorageId sum = w.storage("sum", 4096, Life::reserved);
  const StorageId losses = w.storage("losses", static_cast<Bytes>(count) * 4);
  std::vector<std::array<StorageId, 5>> of;
  for (int j = 0; j < count; ++j) {
    const std::string name = std::to_string(j);
    of.push_back({w.storage("batch " + name, 512), w.storage("crosses " + name, 1024),
                  w.storage("saved " + name, 8192),
                  w.storage("work " + name, j % 5 == 0 ? 300 : 3000),
                  w.program.add_part("loss " + name, losses, static_cast<Bytes>(j) * 4, 4)});
    w.writes("Batch", Lane::receive, of.back()[0]);
  }
  for (int j = 0; j < count; ++j) {
    const auto& [batch, crosses, saved, work, loss] = of[static_cast<std::size_t>(j)];
    Instruction& forward = w.reads("Forward", Lane::compute, batch);
    forward.writes = {{saved, 0}, {crosses, 0}, {work, 0}, {loss, 0}};
    Instruction& backward = w.reads("Backward", Lane::compute, saved);
    backward.reads.push_back({crosses, 0});
    (j == 0 ? backward.writes : backward.accumulates) = {{sum, 0}};
  }
  w.reads("Decide", Lane::reduce, losses);
  return std::move(w.program);
}

}  // namespace

TEST(Placement, puts_each_region_at_the_lowest_offset_that_none_before_it_needs_meanwhile) {
  const auto check = [](const Program& program, std::uint64_t seed) {
    const auto expected = offsets_by_comparing_all(program);
    EXPECT_EQ(schedule::place(program).offset, expected) << "seed " << seed;
  };
  for (std::uint64_t seed = 0; seed < 900; ++seed) check(random_of_all(seed), seed);
  for (const int count : {1, 2, 3, 10, 100, 300}) check(micro_batches(count), 0);
}

TEST(Placement, looks_at_few_regions_for_each_of_many_micro_batches) {
  for (const int count : {64, 1024, 16384}) {
    std::uint64_t looked_at = 0;
    const Program program = micro_batches(count);
    const Placement placement = schedule::place(program, &looked_at);
    const auto regions = static_cast<double>(program.storages.size());
    EXPECT_LT(static_cast<double>(looked_at), 16 * regions * std::log2(regions)) << count;
    EXPECT_LT(placement.device_bytes, static_cast<Bytes>(count) * 600 + 32768);
  }
}

TEST(Placement, looks_at_few_regions_for_each_of_many_posted_transfers) {
  for (const int count : {64, 1024, 4096}) {
    Writer w;
    for (int j = 0; j < count; ++j) {  // each with a place of its own
      const std::string name = std::to_string(j);
      const StorageId in = w.storage("in " + name, 1024);
      const StorageId out = w.storage("out " + name, 1024);
      Instruction& receive = w.writes("Receive", Lane::receive, in);
      receive.receives = {{1, 1024, 0}};
      receive.completion = schedule::Completion::posted;
      w.moves("Work", Lane::compute, in, out);
      Instruction& send = w.reads("Send", Lane::send, out);
      send.sends = {{1, 1024, 0}};
      send.completion = schedule::Completion::posted;
    }
    std::uint64_t looked_at = 0;
    if (count == 64) {
      EXPECT_EQ(schedule::place(w.program).offset, offsets_by_comparing_all(w.program));
    }
    schedule::place(w.program, &looked_at);
    EXPECT_LT(looked_at, 64U * static_cast<std::uint64_t>(count)) << count;
  }
}

TEST(Placement, sharing_bytes_adds_no_wait_inside_a_round) {
  for (std::uint64_t seed = 0; seed < 900; ++seed) {
    const Program program = random_of_all(seed);
    const auto apart = waits_without_sharing(program);
    const auto shared = schedule::derive(program, schedule::place(program));
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      for (const schedule::Dependency wait : shared[i]) {
        if (wait.previous_round) continue;
        EXPECT_NE(std::find(apart[i].begin(), apart[i].end(), wait), apart[i].end())
            << "seed " << seed;
      }
    }
  }
}

TEST(Placement, storages_that_may_be_alive_at_once_never_share_a_byte) {
  for (std::uint64_t seed = 0; seed < 900; ++seed) {
    const Program program = random_of_all(seed);
    const Placement placement = schedule::place(program);
    const schedule::detail::Lifetimes lifetimes(program);
    const auto is_region = [&](StorageId id) {
      return program.storages[id].parent == schedule::no_storage && lifetimes.alive(id);
    };
    for (StorageId a = 0; a < program.storages.size(); ++a) {
      for (StorageId b = 0; b < a; ++b) {
        if (is_region(a) && is_region(b) && lifetimes.meet(a, b)) {
          EXPECT_FALSE(schedule::overlap(program, placement, a, b)) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Placement, no_arena_is_smaller_than_what_is_alive_at_once) {
  int exact = 0;
  for (std::uint64_t seed = 0; seed < 900; ++seed) {
    const Program program = random_of_all(seed);
    const Placement placement = schedule::place(program);
    for (const schedule::Place place : {schedule::Place::device, schedule::Place::host}) {
      const Bytes live = schedule::max_live(program, place);
      EXPECT_LE(live, placement.arena_bytes(place)) << "seed " << seed;
      if (live > 0 && live == placement.arena_bytes(place)) ++exact;
    }
  }
  EXPECT_GT(exact, 100);
}

TEST(Placement, what_is_alive_at_once_ends_with_its_last_use) {
  Writer w;
  const StorageId first = w.storage("first", 1024);
  const StorageId second = w.storage("second", 4096);
  w.writes("Make", Lane::compute, first);
  w.reads("Use", Lane::compute, first);
  w.writes("Make", Lane::compute, second);
  EXPECT_EQ(schedule::max_live(w.program, schedule::Place::device), 4096U);
  EXPECT_EQ(schedule::max_live(w.program, schedule::Place::host), 0U);
  w.reads("Use again", Lane::compute, first);
  EXPECT_EQ(schedule::max_live(w.program, schedule::Place::device), 1024U + 4096U);
}

TEST(Placement, what_is_waited_for_keeps_its_bytes_up_to_there_so_that_no_wait_is_added) {
  Writer w;
  const StorageId first = w.storage("first");
  const StorageId second = w.storage("second");
  w.writes("A", Lane::compute, first);
  w.writes("B", Lane::compute, second);
  const auto shared = [&] { return share_bytes(w.program, first, second); };
  EXPECT_TRUE(shared());
  w.program.add("C", Lane::load).after = {{first, 0}};
  EXPECT_FALSE(shared());
  EXPECT_EQ(schedule::max_live(w.program, schedule::Place::device), 128U);
  EXPECT_EQ(schedule::derive(w.program, schedule::place(w.program))[2],
            (std::vector{schedule::Dependency{0, false}}));
}

TEST(Placement, storages_of_two_lanes_do_not_share_where_neither_waits_for_the_other) {
  Writer w;
  const StorageId sent = w.storage("sent");
  const StorageId received = w.storage("received");
  w.writes("Make", Lane::compute, sent);
  w.reads("Send", Lane::send, sent);
  w.writes("Receive", Lane::receive, received);
  const Placement placement = schedule::place(w.program);
  EXPECT_FALSE(schedule::overlap(w.program, placement, sent, received));
}

TEST(Placement, storages_that_follow_each_other_share_their_bytes) {
  Writer w;
  const StorageId first = w.storage("first", 1024);
  const StorageId second = w.storage("second", 1024);
  w.writes("A", Lane::compute, first);
  w.writes("B", Lane::compute, second);
  const Placement placement = schedule::place(w.program);
  EXPECT_EQ(placement.device_bytes, 1024U);
  EXPECT_TRUE(schedule::overlap(w.program, placement, first, second));
}

TEST(Placement, what_each_iteration_of_a_loop_reads_keeps_its_bytes_to_the_end_of_the_loop) {
  Writer w;
  const StorageId before = w.storage("before");
  const StorageId inside = w.storage("inside");
  const StorageId also_inside = w.storage("also inside");
  const StorageId behind = w.storage("behind");
  w.writes("A", Lane::compute, before);
  w.reads("B", Lane::compute, before);
  w.writes("C", Lane::compute, inside);
  w.writes("D", Lane::compute, also_inside);
  const auto shared = [&](StorageId a, StorageId b) { return share_bytes(w.program, a, b); };
  EXPECT_TRUE(shared(before, inside));
  w.repeat_from(1, 0);
  w.writes("E", Lane::compute, behind);
  EXPECT_FALSE(shared(before, inside));
  EXPECT_FALSE(shared(before, also_inside));
  EXPECT_TRUE(shared(inside, also_inside));
  EXPECT_TRUE(shared(before, behind));
}

TEST(Placement, reserved_storages_come_first_in_their_order_whatever_follows) {
  Writer small;
  Writer large;
  for (Writer* w : {&small, &large}) {
    w->storage("weights", 100, Life::persistent);
    w->storage("gradients", 200, Life::reserved);
  }
  large.writes("A", Lane::compute, large.storage("activation", 1 << 20));
  const Placement a = schedule::place(small.program);
  const Placement b = schedule::place(large.program);
  EXPECT_EQ(a.offset[0], 0U);
  EXPECT_EQ(a.offset[1], 128U);
  EXPECT_EQ(b.offset[0], a.offset[0]);
  EXPECT_EQ(b.offset[1], a.offset[1]);
  EXPECT_GE(b.offset[2], b.offset[1] + 200);
}

TEST(Placement, a_part_lies_inside_its_whole) {
  Writer w;
  const StorageId whole = w.storage("whole", 256);
  const StorageId part = w.program.add_part("part", whole, 64, 128);
  const StorageId inner = w.program.add_part("inner", part, 32, 32);
  w.writes("A", Lane::compute, inner);
  const Placement placement = schedule::place(w.program);
  EXPECT_EQ(placement.address(w.program, inner), placement.address(w.program, whole) + 96);
  EXPECT_THROW(w.program.add_part("outside", part, 100, 64), ScheduleError);
}

TEST(Placement, is_that_of_every_program_which_does_the_same_to_the_same) {
  Writer w;
  const StorageId first = w.storage("first", 64);
  const StorageId second = w.storage("second", 64);
  w.writes("A", Lane::compute, first);
  w.writes("B", Lane::compute, second);
  Program other = w.program;
  other.round[1].sends = {{.peer = 1, .bytes = 8}};
  other.round[1].cost.flops = 1;
  other.storages[0].name = "renamed";
  EXPECT_TRUE(schedule::placed_alike(w.program, other));
  const auto differs = [&](const auto& change) {
    Program changed = w.program;
    change(changed);
    return !schedule::placed_alike(w.program, changed) && !schedule::placed_alike(changed, w.program);
  };
  EXPECT_TRUE(differs([](Program& p) { p.storages[1].bytes = 128; }));
  EXPECT_TRUE(differs([](Program& p) { p.storages[1].life = schedule::Life::persistent; }));
  EXPECT_TRUE(differs([](Program& p) { p.round[1].lane = Lane::load; }));
  EXPECT_TRUE(differs([](Program& p) { p.round[1].completion = schedule::Completion::posted; }));
  EXPECT_TRUE(differs([&](Program& p) { p.round[1].writes[0].storage = first; }));
  EXPECT_TRUE(differs([&](Program& p) { p.round[1].after = {{first, 0}}; }));
  EXPECT_TRUE(differs([](Program& p) { p.round.pop_back(); }));
}

TEST(Placement, host_and_device_are_two_arenas) {
  Writer w;
  const StorageId device = w.storage("device", 64);
  const StorageId host = w.program.add_storage("host", 128, Place::host);
  w.moves("A", Lane::evict, device, host);
  const Placement placement = schedule::place(w.program);
  EXPECT_EQ(placement.device_bytes, 64U);
  EXPECT_EQ(placement.host_bytes, 128U);
  EXPECT_FALSE(schedule::overlap(w.program, placement, device, host));
}

}  // namespace reef::test
