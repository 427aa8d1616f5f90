#include <reef/schedule/rewriter.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "programs.hpp"

namespace reef::test {

TEST(Rewriter, keeps_loops_around_what_was_in_them) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("Sum", Lane::reduce, x);
  w.writes("Batch", Lane::source, w.storage("y"));
  w.reads("Add", Lane::compute, x);
  w.repeat_from(1, 0, 3);
  w.reads("Use", Lane::compute, x);
  Program program = w.program;
  schedule::Rewriter rewriter(program);
  const auto named = [](const std::string& kind) {
    Instruction i;
    i.kind = kind;
    return i;
  };
  rewriter.insert_before(0, named("first"));
  rewriter.insert_before(1, named("ahead of the loop"));
  rewriter.insert_after(1, named("in the loop"));
  rewriter.insert_after(1, named("in the loop too"));
  rewriter.insert_after(2, named("behind the loop"));
  rewriter.insert_after(3, named("last"));
  EXPECT_THROW(rewriter.insert_before(4, named("nowhere")), std::out_of_range);
  rewriter.apply();
  std::vector<std::string> kinds;
  for (const Instruction& i : program.round) kinds.push_back(i.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"first", "Sum", "ahead of the loop", "Batch",
                                             "in the loop", "in the loop too", "Add",
                                             "behind the loop", "Use", "last"}));
  ASSERT_EQ(program.repeats.size(), 1U);
  EXPECT_EQ(program.repeats[0].begin, 3U);
  EXPECT_EQ(program.repeats[0].end, 7U);
  EXPECT_EQ(program.repeats[0].until, 1U);
  EXPECT_EQ(program.repeats[0].max, 3);
}

}  // namespace reef::test
