#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/job.hpp"

// Objects that live longer than the comm::Environment, or before it: they say so in words of Reef's, and nothing is ended
// by MPI or by the system.

namespace reef::test {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Ending ending_of(const std::string& mode, int ranks = 2) {
  const Ending ending = run_command(REEF_TEST_MPIEXEC " -n " + std::to_string(ranks) +
                                    " " REEF_LIFETIME_PROGRAM " " + mode);
  EXPECT_THAT(ending.errors, Not(HasSubstr("***"))) << "words of MPI's";
  EXPECT_THAT(ending.errors, Not(HasSubstr("signal"))) << "the system ended it";
  return ending;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(ObjectsWithoutAnEnvironment, say_so_once_for_all_ranks) {
  for (const std::string mode : {"communicator", "progress"}) {
    const Ending ending = ending_of(mode);
    EXPECT_NE(ending.status, 0) << mode;
    EXPECT_THAT(ending.errors,
                HasSubstr("there is no comm::Environment, so MPI has not been started"))
        << mode;
    EXPECT_THAT(ending.errors, HasSubstr("fix: one comm::Environment in main")) << mode;
    EXPECT_EQ(count(ending.errors, "there is no comm::Environment"), 1) << mode << ": " << ending;
  }
}

TEST(ObjectsMadeAfterTheEnvironment, say_that_it_has_ended) {
  for (const std::string mode : {"split", "after"}) {
    const Ending ending = ending_of(mode);
    EXPECT_NE(ending.status, 0) << mode;
    EXPECT_THAT(ending.errors, HasSubstr("its comm::Environment has ended, and MPI with it"))
        << mode;
  }
}

TEST(ObjectsThatOutliveTheEnvironment, go_on_and_one_rank_says_so) {
  for (const std::string mode : {"first", "static"}) {
    for (const int ranks : {1, 2}) {
      const Ending ending = ending_of(mode, ranks);
      EXPECT_EQ(ending.status, 0) << mode << ": " << ending;
      EXPECT_EQ(count(ending.output, "the sum is " + std::to_string(ranks)), 2)
          << mode << ": " << ending;
      EXPECT_EQ(count(ending.errors, "it ends before a Progress object"), 1)
          << mode << ": " << ending;
      EXPECT_EQ(count(ending.output, "at the end of main"), ranks) << mode << ": " << ending;
    }
  }
}

TEST(ObjectsThatOutliveTheirProgressObject, end_without_a_word) {
  for (const std::string mode : {"counter", "task"}) {
    const Ending ending = ending_of(mode);
    EXPECT_EQ(ending.status, 0) << mode << ": " << ending;
    EXPECT_EQ(count(ending.output, "at the end of main"), 2) << mode << ": " << ending;
  }
}

TEST(ASecondEnvironment, is_refused_while_objects_of_the_first_live_on) {
  const Ending ending = ending_of("again", 1);
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("one has ended before, and MPI cannot be started twice"));
}

}  // namespace

}  // namespace reef::test
