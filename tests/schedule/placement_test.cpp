#include <reef/schedule/placement.hpp>

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace

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
      const Bytes live = schedule::most_live(program, place);
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
  EXPECT_EQ(schedule::most_live(w.program, schedule::Place::device), 4096U);
  EXPECT_EQ(schedule::most_live(w.program, schedule::Place::host), 0U);
  w.reads("Use again", Lane::compute, first);
  EXPECT_EQ(schedule::most_live(w.program, schedule::Place::device), 1024U + 4096U);
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

TEST(Placement, what_each_turn_of_a_loop_reads_keeps_its_bytes_to_the_end_of_the_loop) {
  Writer w;
  const StorageId before = w.storage("before");
  const StorageId inside = w.storage("inside");
  const StorageId also_inside = w.storage("also inside");
  const StorageId behind = w.storage("behind");
  w.writes("A", Lane::compute, before);
  w.reads("B", Lane::compute, before);
  w.writes("C", Lane::compute, inside);
  w.writes("D", Lane::compute, also_inside);
  const auto shared = [&](StorageId a, StorageId b) {
    return schedule::overlap(w.program, schedule::place(w.program), a, b);
  };
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
