#include <gtest/gtest.h>

#include <set>
#include <vector>

#include <reef/schedule/dependencies.hpp>

#include "programs.hpp"

namespace reef::test {

using schedule::Dependencies;
using schedule::Dependency;
using schedule::Placement;

namespace {

Dependencies derive(const Program& program) {
  return schedule::derive(program, schedule::place(program));
}

/// before[i] holds what is certainly complete when instruction i of the second round starts, as
/// positions in two rounds, by the order of lanes and by the waits alone.
std::vector<std::set<std::size_t>> reachable(const Program& program, const Dependencies& waits) {
  const std::size_t count = program.round.size();
  std::vector<std::set<std::size_t>> before(2 * count);
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const auto include = [&](std::size_t j) {
      before[i].insert(j);
      before[i].insert(before[j].begin(), before[j].end());
    };
    for (std::size_t j = i; j-- > 0;) {
      if (program.round[j % count].lane == program.round[i % count].lane) {
        include(j);
        break;
      }
    }
    for (const Dependency wait : waits[i % count]) {
      if (wait.previous_round && i < count) continue;
      include(wait.instruction + (wait.previous_round || i < count ? 0 : count));
    }
  }
  return before;
}

bool conflict(const Program& program, const Placement& placement, std::size_t a, std::size_t b) {
  const auto touches = [&](const auto& first, const auto& second) {
    for (const auto x : first) {
      for (const auto y : second) {
        if (schedule::overlap(program, placement, x.storage, y.storage)) return true;
      }
    }
    return false;
  };
  const Instruction& i = program.round[a];
  const Instruction& j = program.round[b];
  return touches(i.writes, j.writes) || touches(i.writes, j.reads) || touches(i.reads, j.writes);
}

}  // namespace

TEST(Dependencies, order_every_two_accesses_to_the_same_bytes_of_which_one_writes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Program program = random_program(seed);
    const Placement placement = schedule::place(program);
    const std::size_t count = program.round.size();
    const auto before = reachable(program, schedule::derive(program, placement));
    for (std::size_t i = 0; i < 2 * count; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!conflict(program, placement, j % count, i % count)) continue;
        EXPECT_TRUE(before[i].contains(j)) << "seed " << seed << ": " << j << " then " << i;
      }
    }
  }
}

TEST(Dependencies, leave_out_what_follows_from_the_others) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = random_program(seed);
    const std::size_t count = program.round.size();
    const Dependencies waits = derive(program);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < waits[i].size(); ++k) {
        Dependencies fewer = waits;
        fewer[i].erase(fewer[i].begin() + static_cast<std::ptrdiff_t>(k));
        const Dependency left_out = waits[i][k];
        const std::size_t at = left_out.instruction + (left_out.previous_round ? 0 : count);
        EXPECT_FALSE(reachable(program, fewer)[count + i].contains(at)) << "seed " << seed;
      }
    }
  }
}

TEST(Dependencies, a_reader_waits_for_its_writer_and_the_next_writer_for_the_reader) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("Make", Lane::compute, x);
  w.reads("Send", Lane::send, x);
  const Dependencies waits = derive(w.program);
  EXPECT_EQ(waits[0], (std::vector<Dependency>{{1, true}}));
  EXPECT_EQ(waits[1], (std::vector<Dependency>{{0, false}}));
}

TEST(Dependencies, two_readers_do_not_wait_for_each_other) {
  Writer w;
  const StorageId x = w.storage("x", 64, Life::persistent);
  w.reads("A", Lane::compute, x);
  w.reads("B", Lane::send, x);
  for (const auto& waits : derive(w.program)) EXPECT_TRUE(waits.empty());
}

TEST(Dependencies, accumulations_keep_the_order_of_the_program) {
  Writer w;
  const StorageId sum = w.storage("sum", 64, Life::persistent);
  w.program.add("A", Lane::compute).accumulates = {{sum, 0}};
  w.program.add("B", Lane::load).accumulates = {{sum, 0}};
  const Dependencies waits = derive(w.program);
  EXPECT_EQ(waits[1], (std::vector<Dependency>{{0, false}}));
}

TEST(Dependencies, who_takes_over_bytes_waits_for_their_last_use) {
  Writer w;
  const StorageId first = w.storage("first", 64);
  const StorageId second = w.storage("second", 64);
  w.writes("A", Lane::compute, first);
  w.reads("B", Lane::send, first);
  w.writes("C", Lane::compute, second);
  Placement placement = schedule::place(w.program);
  placement.offset[second] = placement.offset[first];
  EXPECT_EQ(schedule::derive(w.program, placement)[2], (std::vector<Dependency>{{1, false}}));
}

}  // namespace reef::test
