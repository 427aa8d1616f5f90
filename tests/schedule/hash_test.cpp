#include <reef/schedule/hash.hpp>

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "programs.hpp"

namespace reef::test {

TEST(Hash, equal_programs_have_equal_hashes_and_any_change_changes_it) {
  const auto base = [] {
    Writer w;
    const StorageId x = w.storage("x");
    w.writes("A", Lane::compute, x);
    w.reads("B", Lane::send, x).sends = {{1, 96, 0}};
    w.writes("C", Lane::compute, x);
    w.repeat_from(2, 1);
    return w.program;
  };
  const auto hash = [](const Program& program) { return schedule::hash_of(std::vector{program}); };
  EXPECT_EQ(hash(base()), hash(base()));

  std::set<std::uint64_t> hashes{hash(base())};
  const auto changed = [&](auto change) {
    Program program = base();
    change(program);
    EXPECT_TRUE(hashes.insert(hash(program)).second);
  };
  changed([](Program& p) { p.storages[0].bytes += 1; });
  changed([](Program& p) { p.storages[0].name = "y"; });
  changed([](Program& p) { p.storages[0].life = Life::persistent; });
  changed([](Program& p) { p.round[0].kind = "C"; });
  changed([](Program& p) { p.round[0].lane = Lane::load; });
  changed([](Program& p) { p.round[0].index = 3; });
  changed([](Program& p) { p.round[0].writes[0].version = 1; });
  changed([](Program& p) { p.round[2].after = {{0, 0}}; });
  changed([](Program& p) { p.round[2].reads = {{0, 0}}; });
  changed([](Program& p) { p.round[1].sends[0].bytes = 97; });
  changed([](Program& p) { p.round[1].sends[0].channel = 1; });
  changed([](Program& p) { p.round.pop_back(); });
  changed([](Program& p) { p.repeats.clear(); });
  changed([](Program& p) { p.repeats[0].begin = 1; });
  changed([](Program& p) { p.repeats[0].end = 2; });
  changed([](Program& p) { p.repeats[0].until = 0; });
  changed([](Program& p) { p.repeats[0].max = 1; });
  changed([](Program& p) { p.repeats[0].expected = 1; });
}

}  // namespace reef::test
