// What ranks prove together: every one of them comes to the same verdict, whoever has what is wrong.

#include <reef/run/proof.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/options.hpp>
#include <reef/comm/progress.hpp>
#include <reef/schedule/skeleton_of.hpp>

#include "../schedule/programs.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;

/// A rank sends to the one behind it and receives from the one ahead of it: on two lanes, or on one.
run::RankProof ring(const comm::Progress& progress, Lane receive) {
  const int ranks = progress.size();
  Writer w(progress.rank());
  const StorageId x = w.storage("x", 64, Life::persistent);
  const StorageId y = w.storage("y");
  if (ranks > 1) {
    w.reads("Send", Lane::send, x).sends = {{(w.program.rank + 1) % ranks, 96, 0}};
    w.writes("Receive", receive, y).receives = {{(w.program.rank + ranks - 1) % ranks, 96, 0}};
  }
  return {{},
          schedule::encode(schedule::skeleton_of(
              w.program, schedule::derive(w.program, schedule::place(w.program))))};
}

class Proof : public testing::Test {
protected:
  comm::Progress progress{comm::ProgressOptions{}};
};

/// The verdict of this rank, which is that of all.
std::string verdict(comm::Progress& progress, const std::vector<run::RankProof>& mine) {
  const std::string own = run::problem_of_all(progress, mine);
  EXPECT_EQ(comm::broadcast_text(progress, "verdict of rank 0", own), own);
  return own;
}

}  // namespace

TEST_F(Proof, of_programs_that_are_right_ends_without_a_word) {
  EXPECT_EQ(verdict(progress, {}), "");
  EXPECT_EQ(verdict(progress, {ring(progress, Lane::receive), ring(progress, Lane::receive)}), "");
}

TEST_F(Proof, of_a_deadlock_says_the_same_circle_on_every_rank) {
  if (progress.size() == 1) GTEST_SKIP() << "needs two ranks";
  const std::string text =
      verdict(progress, {ring(progress, Lane::receive), ring(progress, Lane::send)});
  EXPECT_THAT(text, HasSubstr("reef::schedule::verify: the programs deadlock:"));
  for (int rank = 0; rank < progress.size(); ++rank) {
    EXPECT_THAT(text, HasSubstr("rank " + std::to_string(rank) + ": Receive on lane send"));
  }
}

TEST_F(Proof, tells_every_rank_what_one_program_has_by_itself_the_first_of_all) {
  std::vector<run::RankProof> mine{ring(progress, Lane::receive), ring(progress, Lane::send)};
  if (progress.rank() == progress.size() - 1) mine[0].problem = "why\n  fix: that";
  EXPECT_EQ(verdict(progress, mine), "why\n  fix: that");
}

TEST_F(Proof, refuses_what_is_no_skeleton) {
  if (progress.size() == 1) GTEST_SKIP() << "needs two ranks";
  run::RankProof mine = ring(progress, Lane::receive);
  if (progress.rank() == 1) mine.skeleton.pop_back();
  EXPECT_THAT(verdict(progress, {mine}), HasSubstr("the bytes are no skeleton"));
}

TEST_F(Proof, plans_agree_where_each_rank_has_what_the_one_ahead_of_it_builds) {
  const auto rank = static_cast<std::uint64_t>(progress.rank());
  const auto ranks = static_cast<std::uint64_t>(progress.size());
  const run::PlanHashes right{7, 100 + rank, 100 + (rank + 1) % ranks};
  EXPECT_TRUE(run::plans_agree(progress, right));
  if (ranks == 1) return;
  for (std::uint64_t other = 0; other < ranks; ++other) {
    for (auto member : {&run::PlanHashes::alike, &run::PlanHashes::own, &run::PlanHashes::next}) {
      run::PlanHashes hashes = right;
      hashes.*member += rank == other ? 1 : 0;
      EXPECT_FALSE(run::plans_agree(progress, hashes)) << other;
    }
  }
}

}  // namespace reef::test
