#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/job.hpp"

// How jobs end in which a rank stops, dies, or does not do its part: real jobs of four ranks.

namespace reef::test {

namespace {

using testing::HasSubstr;
using testing::Not;

Ending run_job(const std::string& mode, const std::string& transport) {
  const std::string program = REEF_TEST_MPIEXEC " -n 4 " REEF_FAILURE_PROGRAM;
  return run_command(program + " " + mode + " " + transport, 40);
}

class EndOfAJob : public testing::TestWithParam<const char*> {};

TEST_P(EndOfAJob, a_rank_that_does_its_part_ends_well) {
  const Ending ending = run_job("none", GetParam());
  EXPECT_EQ(ending.status, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("all sums are there"));
}

TEST_P(EndOfAJob, a_stopped_rank_ends_it_by_the_deadline_and_is_named) {
  const Ending ending = run_job("stop", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.output, HasSubstr("all-reduce 'sum2' number 2 in queue 'reduce'"));
  EXPECT_THAT(ending.output, HasSubstr("rank 1 is silent since"));
  EXPECT_THAT(ending.output, HasSubstr("rank 1 does not answer"));
  // The last operations of those who answer.
  EXPECT_THAT(ending.output,
              HasSubstr("all-reduce 'sum1' number 1 in queue 'reduce', 320 B: done"));
  EXPECT_THAT(ending.output, Not(HasSubstr("all sums are there")));
}

TEST_P(EndOfAJob, a_living_rank_that_leaves_a_collective_out_ends_it_by_the_operation_deadline) {
  const Ending ending = run_job("skip", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.output, HasSubstr("all-reduce 'sum2' number 2 in queue 'reduce'"));
  EXPECT_THAT(ending.output, HasSubstr("rank 1 is alive"));
  EXPECT_THAT(ending.output, HasSubstr("did it leave this operation out?"));
}

TEST_P(EndOfAJob, a_rank_at_another_collective_ends_it_and_both_are_named) {
  const Ending ending = run_job("next", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.output, HasSubstr("do not do the same thing"));
  EXPECT_THAT(ending.output, HasSubstr("all-reduce 'sum2' number 2"));
  EXPECT_THAT(ending.output, HasSubstr("all-reduce 'sum3'"));
}

TEST_P(EndOfAJob, a_rank_that_ends_early_is_said_to_have_left) {
  const Ending ending = run_job("leave", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.output, HasSubstr("rank 1 ended its communication"));
  EXPECT_THAT(ending.output, HasSubstr("all-reduce 'sum2' number 2 in queue 'reduce'"));
}

TEST_P(EndOfAJob, an_exception_on_one_rank_ends_all) {
  const Ending ending = run_job("throw", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.output, HasSubstr("rank 1 has had enough"));
}

TEST_P(EndOfAJob, a_killed_rank_ends_it) {
  const Ending ending = run_job("kill", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.output, HasSubstr("rank 1 is killed"));
  EXPECT_THAT(ending.output, Not(HasSubstr("all sums are there")));
}

TEST_P(EndOfAJob, a_late_rank_that_is_alive_is_waited_for) {
  const Ending ending = run_job("late", GetParam());
  EXPECT_EQ(ending.status, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("all sums are there"));
}

TEST_P(EndOfAJob, a_machine_that_slept_for_longer_than_the_deadline_goes_on) {
  const Ending ending = run_job("pause", GetParam());
  EXPECT_EQ(ending.status, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("all sums are there"));
}

/// What becomes of the others when a process dies is the launcher's choice. Here it watches shells, which
/// outlive the rank that dies, so that the others are left to find out.
TEST(EndOfACollective, a_rank_that_dies_in_the_middle_is_named_by_the_deadline) {
  for (const char* const transport : {"messages", "window", "slots"}) {
    for (const int ranks : {2, 3}) {
      const std::string count = std::to_string(ranks);
      const std::string last = std::to_string(ranks - 1);
      const Ending ending =
          run_command(REEF_TEST_MPIEXEC " -n " + count + " sh -c '" REEF_FAILURE_PROGRAM " die " +
                      transport + " || (sleep 10; false)'");
      EXPECT_NE(ending.status, 0) << transport << ", " << ranks;
      EXPECT_THAT(ending.output, Not(HasSubstr("all sums are there")));
      if (ending.output.find("reef::comm:") == std::string::npos) {
        GTEST_SKIP() << "this launcher has ended the others itself:\n" << ending.output;
      }
      EXPECT_THAT(ending.output, HasSubstr("reduce-scatter 'sum' number 0 in queue 'reduce'"));
      EXPECT_THAT(ending.output, HasSubstr("rank " + last + " is silent since"))
          << transport << ", " << ranks;
    }
  }
}

TEST(EndOfAClaim, names_rank_0_by_the_deadline_where_it_is_dead) {
  const Ending ending = run_command(REEF_TEST_MPIEXEC " -n 3 sh -c '" REEF_FAILURE_PROGRAM
                                                      " claim messages || (sleep 10; false)'");
  EXPECT_NE(ending.status, 0);
  if (ending.output.find("reef::comm:") == std::string::npos) {
    GTEST_SKIP() << "this launcher has ended the others itself:\n" << ending.output;
  }
  EXPECT_THAT(ending.output, HasSubstr("claim 'numbers' number"));
  EXPECT_THAT(ending.output, HasSubstr("rank 0 is silent since"));
}

INSTANTIATE_TEST_SUITE_P(Transports, EndOfAJob, testing::Values("messages", "window"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace

}  // namespace reef::test
