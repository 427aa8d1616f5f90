#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/job.hpp"

// How jobs end in which a rank stops, dies, or does not do its part: real jobs of four ranks. They do
// little but wait for deadlines, so several run at once, all before the first test, which look at how
// they ended.

namespace reef::test {

namespace {

using testing::HasSubstr;
using testing::Not;

struct Job {
  std::string mode;
  std::string transport;
  int ranks = 4;
  Ending ending = {};

  void run() {
    const std::string program = REEF_FAILURE_PROGRAM " " + mode + " " + transport;
    // What becomes of the others when a process dies is the launcher's choice. Here it watches
    // shells, which outlive the rank that dies by far more than the deadline, so that the others are
    // left to find out.
    const bool in_shell = mode == "die" || mode == "claim";
    ending = run_ranks(REEF_TEST_MPIEXEC, ranks, in_shell ? "sh -c '" + program + " || (sleep 15; false)'" : program);
  }
};

class Jobs : public testing::Environment {
public:
  /// Runs them all, those first that take longest.
  void SetUp() override {
    jobs_ = {{"claim", "messages", 3}, {"posted", "messages", 3}};
    for (const char* const transport : {"messages", "window", "slots"}) {
      for (const int ranks : {2, 3}) jobs_.push_back({"die", transport, ranks});
    }
    for (const char* const mode :
         {"pause", "late", "skip", "stop", "throw", "next", "leave", "kill", "none"}) {
      for (const char* const transport : transports) jobs_.push_back({mode, transport});
    }
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
      for (std::size_t i = next++; i < jobs_.size(); i = next++) {
        jobs_[i].run();
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < at_once; ++i) threads.emplace_back(run);
    for (std::thread& thread : threads) thread.join();
  }

  [[nodiscard]] Ending ending_of(const std::string& mode, const std::string& transport,
                                 int ranks) const {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& one) {
      return one.mode == mode && one.transport == transport && one.ranks == ranks;
    });
    if (job != jobs_.end()) return job->ending;
    ADD_FAILURE() << "no such job: " << mode << ", " << transport << ", " << ranks;
    return {};
  }

  static constexpr const char* transports[] = {"messages", "window"};

private:
  static constexpr int at_once = 6;
  std::vector<Job> jobs_;
};

// GoogleTest owns it.
const Jobs* const jobs =
    static_cast<Jobs*>(testing::AddGlobalTestEnvironment(new Jobs));  // NOLINT(cert-err58-cpp)

Ending ending_of(const std::string& mode, const std::string& transport, int ranks = 4) {
  return jobs->ending_of(mode, transport, ranks);
}

class EndOfAJob : public testing::TestWithParam<const char*> {};

TEST_P(EndOfAJob, a_rank_that_does_its_part_ends_well) {
  const Ending ending = ending_of("none", GetParam());
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.output, HasSubstr("all sums are there"));
}

TEST_P(EndOfAJob, a_stopped_rank_ends_it_by_the_deadline_and_is_named) {
  const Ending ending = ending_of("stop", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("all-reduce 'sum2' number 2 in queue 'reduce'"));
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 is silent since"));
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 does not answer"));
  // The last operations of those who answer.
  EXPECT_THAT(ending.errors,
              HasSubstr("all-reduce 'sum1' number 1 in queue 'reduce', 320 B: done"));
  EXPECT_THAT(ending.output, Not(HasSubstr("all sums are there")));
}

TEST_P(EndOfAJob, a_living_rank_that_leaves_a_collective_out_ends_it_by_the_operation_deadline) {
  const Ending ending = ending_of("skip", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("all-reduce 'sum2' number 2 in queue 'reduce'"));
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 is alive"));
  EXPECT_THAT(ending.errors, HasSubstr("did it leave this operation out?"));
}

TEST_P(EndOfAJob, a_rank_at_another_collective_ends_it_and_both_are_named) {
  const Ending ending = ending_of("next", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("do not do the same thing"));
  EXPECT_THAT(ending.errors, HasSubstr("all-reduce 'sum2' number 2"));
  EXPECT_THAT(ending.errors, HasSubstr("all-reduce 'sum3'"));
}

TEST_P(EndOfAJob, a_rank_that_ends_early_is_said_to_have_left) {
  const Ending ending = ending_of("leave", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 ended its communication"));
  EXPECT_THAT(ending.errors, HasSubstr("all-reduce 'sum2' number 2 in queue 'reduce'"));
}

TEST_P(EndOfAJob, an_exception_on_one_rank_ends_all) {
  const Ending ending = ending_of("throw", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("failure-program: rank 1 has had enough"));
}

TEST(EndOfAJobWithPostedReceives, names_the_first_of_them_and_the_rank_that_stopped) {
  const Ending ending = ending_of("posted", "messages", 3);
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("what is behind them is done"));
  EXPECT_THAT(ending.errors, HasSubstr("waits at receive 'early' number 0 in queue 'pipe'"));
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 is silent since"));
  EXPECT_THAT(ending.errors,
              HasSubstr("receive 'late' number 0 in queue 'pipe', 3.91 KiB: in flight for"));
  EXPECT_THAT(ending.errors, HasSubstr("call 'behind' number 0 in queue 'pipe', 0 B: done"));
  EXPECT_THAT(ending.output, Not(HasSubstr("all sums are there")));
}

TEST_P(EndOfAJob, a_killed_rank_ends_it) {
  const Ending ending = ending_of("kill", GetParam());
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 is killed"));
  EXPECT_THAT(ending.output, Not(HasSubstr("all sums are there")));
}

TEST_P(EndOfAJob, a_late_rank_that_is_alive_is_waited_for) {
  const Ending ending = ending_of("late", GetParam());
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.output, HasSubstr("all sums are there"));
}

TEST_P(EndOfAJob, a_machine_that_slept_for_longer_than_the_deadline_goes_on) {
  const Ending ending = ending_of("pause", GetParam());
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.output, HasSubstr("all sums are there"));
}

TEST(EndOfACollective, a_rank_that_dies_in_the_middle_is_named_by_the_deadline) {
  int told = 0;
  for (const char* const transport : {"messages", "window", "slots"}) {
    for (const int ranks : {2, 3}) {
      const std::string last = std::to_string(ranks - 1);
      const Ending ending = ending_of("die", transport, ranks);
      EXPECT_NE(ending.status, 0) << transport << ", " << ranks;
      EXPECT_THAT(ending.output, Not(HasSubstr("all sums are there")));
      if (ending.errors.find("reef::comm:") == std::string::npos) continue;
      ++told;
      EXPECT_THAT(ending.errors, HasSubstr("reduce-scatter 'sum' number 0 in queue 'reduce'"));
      EXPECT_THAT(ending.errors, HasSubstr("rank " + last + " is silent since"))
          << transport << ", " << ranks;
    }
  }
  if (told == 0) GTEST_SKIP() << "this launcher ends the others itself";
  EXPECT_EQ(told, 6) << "of the jobs, in which the others are left to find out";
}

TEST(EndOfAClaim, names_rank_0_by_the_deadline_where_it_is_dead) {
  const Ending ending = ending_of("claim", "messages", 3);
  EXPECT_NE(ending.status, 0);
  if (ending.errors.find("reef::comm:") == std::string::npos) {
    GTEST_SKIP() << "this launcher has ended the others itself:\n" << ending;
  }
  EXPECT_THAT(ending.errors, HasSubstr("claim 'numbers' number"));
  EXPECT_THAT(ending.errors, HasSubstr("rank 0 is silent since"));
}

INSTANTIATE_TEST_SUITE_P(Transports, EndOfAJob, testing::ValuesIn(Jobs::transports),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace

}  // namespace reef::test
