#include <reef/schedule/dependencies.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include "programs.hpp"

namespace reef::schedule {

void PrintTo(const Dependency& wait, std::ostream* out) {
  *out << "instruction " << wait.instruction << (wait.previous_round ? " of the round before" : "");
}

}  // namespace reef::schedule

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
      if (program.round[j % count].lane != program.round[i % count].lane) continue;
      // What is posted has only started.
      if (program.round[j % count].is_posted()) {
        before[i].insert(before[j].begin(), before[j].end());
      } else {
        include(j);
      }
      break;
    }
    for (const Dependency wait : waits[i % count]) {
      if (wait.previous_round && i < count) continue;
      include(wait.instruction + (wait.previous_round || i < count ? 0 : count));
    }
  }
  return before;
}

/// Instruction b, later than a, has to come behind it.
bool conflict(const Program& program, const Placement& placement, std::size_t a, std::size_t b) {
  const auto touches = [&](const std::vector<schedule::Value>& first,
                           const std::vector<schedule::Value>& second) {
    for (const auto x : first) {
      for (const auto y : second) {
        if (schedule::overlap(program, placement, x.storage, y.storage)) return true;
      }
    }
    return false;
  };
  const Instruction& i = program.round[a];
  const Instruction& j = program.round[b];
  for (const auto* written : {&i.writes, &i.accumulates}) {
    for (const auto* other : {&j.reads, &j.writes, &j.accumulates}) {
      if (touches(*written, *other)) return true;
    }
  }
  return touches(i.reads, j.writes) || touches(i.reads, j.accumulates) ||
         touches(i.writes, j.after) || touches(i.accumulates, j.after);
}

/// With storages of one kind, and with those of all kinds.
Program random_held(std::uint64_t seed) {
  return seed % 2 == 0 ? random_program(seed) : random_storages(seed);
}

/// With some transfers that are posted, too.
Program random_of_both(std::uint64_t seed) {
  Program program = random_held(seed);
  std::uint64_t draw = 0;
  for (Instruction& i : program.round) {
    const bool transfers = i.lane == Lane::send || i.lane == Lane::receive;
    const bool posts = random_bits({seed, 0, 4, 0}, draw++) % 2 == 0;
    if (seed % 4 < 2 && transfers && posts) i.completion = schedule::Completion::posted;
  }
  return program;
}

/// Two rounds with so many iterations of each loop, by the order that loops promise: what each run
/// of an instruction, in the order of the program, certainly comes after.
class Unrolled {
public:
  Unrolled(const Program& program, const Dependencies& waits, const std::vector<int>& iterations)
      : program_(program), loops_(schedule::loop_by_instruction(program)), waits_(waits) {
    for (int round = 0; round < 2; ++round) {
      former_ = std::exchange(ended_, std::vector<Nodes>(program.round.size()));
      std::size_t i = 0;
      for (std::size_t loop = 0; loop < program.repeats.size(); ++loop) {
        const schedule::Repeat& repeat = program.repeats[loop];
        while (i < repeat.begin) run(i++, {});
        run_loop(repeat, iterations[loop]);
        i = repeat.end;
      }
      while (i < program.round.size()) run(i++, {});
    }
  }

  [[nodiscard]] const std::vector<std::size_t>& instructions() const { return instructions_; }
  [[nodiscard]] bool ordered(std::size_t a, std::size_t b) const { return before_[b].contains(a); }

private:
  using Nodes =
      std::set<std::size_t>;  // runs that are complete, by their places in the unrolled order

  /// A plain instruction, or one in an iteration that has begun.
  void run(std::size_t i, const Nodes& begun) {
    Nodes before = begun;
    const bool looped = loops_[i] != schedule::no_loop;
    for (const Dependency wait : waits_[i]) {
      const bool in_iteration =
          looped && loops_[wait.instruction] == loops_[i] && !wait.previous_round;
      if (!looped || in_iteration) merge(before, ended(wait));
    }
    Nodes& lane = lanes_[static_cast<std::size_t>(program_.round[i].lane)];
    merge(before, lane);
    const std::size_t place = instructions_.size();
    instructions_.push_back(i);
    before_.push_back(before);
    before.insert(place);
    lane = before;
    ended_[i] = before;
  }

  void run_loop(const schedule::Repeat& repeat, int iterations) {
    Nodes complete;
    for (std::size_t i = repeat.begin; i < repeat.end; ++i) {
      merge(complete, lanes_[static_cast<std::size_t>(program_.round[i].lane)]);
      for (const Dependency wait : waits_[i]) {
        if (!wait.previous_round && wait.instruction >= repeat.begin) continue;
        merge(complete, ended(wait));
      }
    }
    for (int iteration = 0; iteration < iterations; ++iteration) {
      const Nodes begun = complete;
      for (std::size_t i = repeat.begin; i < repeat.end; ++i) run(i, begun);
      for (std::size_t i = repeat.begin; i < repeat.end; ++i) merge(complete, ended_[i]);
    }
    for (std::size_t i = repeat.begin; i < repeat.end; ++i) {
      ended_[i] = complete;
      lanes_[static_cast<std::size_t>(program_.round[i].lane)] = complete;
    }
  }

  [[nodiscard]] const Nodes& ended(const Dependency& wait) const {
    static const Nodes none;
    const std::vector<Nodes>& round = wait.previous_round ? former_ : ended_;
    return round.empty() ? none : round[wait.instruction];
  }

  static void merge(Nodes& to, const Nodes& from) { to.insert(from.begin(), from.end()); }

  const Program& program_;
  std::vector<std::uint32_t> loops_;
  const Dependencies& waits_;
  std::vector<std::size_t> instructions_;
  std::vector<Nodes> before_;
  std::vector<Nodes> former_;
  std::vector<Nodes> ended_;
  std::array<Nodes, schedule::lane_count> lanes_;
};

}  // namespace

TEST(Dependencies, order_every_two_accesses_to_the_same_bytes_of_which_one_writes) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Program program = random_of_both(seed);
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

TEST(Dependencies, are_between_accesses_to_the_same_bytes_alone) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Program program = random_of_both(seed);
    const Placement placement = schedule::place(program);
    const Dependencies waits = schedule::derive(program, placement);
    for (std::size_t i = 0; i < waits.size(); ++i) {
      for (const Dependency wait : waits[i]) {
        EXPECT_TRUE(conflict(program, placement, wait.instruction, i)) << "seed " << seed;
      }
    }
  }
}

TEST(Dependencies, order_them_for_any_number_of_iterations_of_any_loop) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = random_loops(seed);
    const Placement placement = schedule::place(program);
    const Dependencies waits = schedule::derive(program, placement);
    for (int draw = 0; draw < 9; ++draw) {
      const Unrolled runs(program, waits, {draw / 3, draw % 3});
      const std::vector<std::size_t>& order = runs.instructions();
      for (std::size_t j = 0; j < order.size(); ++j) {
        for (std::size_t i = 0; i < j; ++i) {
          if (!conflict(program, placement, order[i], order[j])) continue;
          EXPECT_TRUE(runs.ordered(i, j))
              << "seed " << seed << ", iterations " << draw / 3 << " and " << draw % 3 << ": "
              << order[i] << " then " << order[j];
        }
      }
    }
  }
}

TEST(Dependencies, from_outside_the_last_instruction_stands_for_a_loop) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId y = w.storage("y");
  w.writes("Before", Lane::compute, y);
  w.writes("Make", Lane::receive, x);
  w.reads("Take", Lane::compute, x);
  w.reads("Last", Lane::compute, y);
  w.repeat_from(1, 0);
  w.reads("Behind", Lane::load, x);
  w.reads("Follows", Lane::receive, y);  // by its lane behind all of the body
  const Dependencies waits = derive(w.program);
  EXPECT_TRUE(waits[1].empty() || waits[1] == (std::vector<Dependency>{{4, true}}));
  EXPECT_EQ(waits[2], (std::vector<Dependency>{{1, false}}));
  EXPECT_EQ(waits[4], (std::vector<Dependency>{{3, false}}));
  EXPECT_TRUE(waits[5].empty());
}

TEST(Dependencies, a_loop_waits_for_all_that_its_body_waits_for_and_for_its_lanes) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("Make", Lane::load, x);
  w.writes("Other", Lane::receive, w.storage("y"));
  w.writes("First", Lane::receive, w.storage("z"));
  w.reads("Last", Lane::compute, x);
  w.repeat_from(2, 0);
  const std::vector<schedule::Precedence> all = schedule::precedences(w.program, derive(w.program));
  for (const std::uint32_t from : {0U, 1U}) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [from](const schedule::Precedence& order) {
      return order.from == from && order.to == 2 && !order.previous_round && !order.in_iteration &&
             !order.at_start;
    }));
  }
}

TEST(Dependencies, leave_out_what_follows_from_the_others) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Program program = random_held(seed);
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

TEST(Dependencies, who_comes_after_a_value_waits_for_its_writer_and_no_writer_waits_for_it) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("Make", Lane::compute, x);
  w.program.add("Behind", Lane::send).after = {{x, 0}};
  w.writes("MakeAgain", Lane::load, x);
  const Dependencies waits = derive(w.program);
  EXPECT_EQ(waits[0], (std::vector<Dependency>{{2, true}}));
  EXPECT_EQ(waits[1], (std::vector<Dependency>{{0, false}}));
  EXPECT_EQ(waits[2], (std::vector<Dependency>{{0, false}}));
}

TEST(Dependencies, what_has_no_bytes_orders_too) {
  Writer w;
  const StorageId sign = w.storage("sign", 0);
  w.writes("Make", Lane::compute, w.storage("x"));
  w.writes("Say", Lane::compute, sign);
  w.program.add("Behind", Lane::load).after = {{sign, 0}};
  EXPECT_EQ(derive(w.program)[2], (std::vector<Dependency>{{1, false}}));
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
