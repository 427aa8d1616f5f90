#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/job.hpp"

// How jobs end in which a stage dies, or sends another message than the one that is next: real jobs of two and three
// ranks, several at once, all before the first test.

namespace reef::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double deadline = 60;  // of the program, but where a rank is killed

/// What a rank that is not what it should be sends, and what is said of it.
struct Case {
  std::string mode;
  std::string said;

  friend void PrintTo(const Case& sent, std::ostream* out) { *out << sent.mode; }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"header", "a header whose seal does not match"},
      {"payload", "that, but a payload whose checksum does not match"},
      {"cut-header", "a truncated message, of which 40 bytes came"},
      {"cut", "a truncated message, of which 441 bytes came"},
      {"longer", "longer message"},
      {"foreign", "448 bytes that are no message of this Reef"},
      {"twice", "number 1, piece 0, 384 bytes, "},
      {"old", "number 0, piece 0, 384 bytes, "},
      {"version", "a message in version 2 of the format, which here is 3"},
      {"plan", ": it runs another program"},
      {"step", "step 0, round 2"},
      {"round", "step 1, round 3"},
      {"edge", "micro-batch 1, step 1, round 2"},
      {"micro-batch", "micro-batch 2, step 1, round 2"},
      {"direction", "parameter of edge"},
      {"codec", "encoded by codec 1"},
  };
  return all;
}

struct Job {
  std::string mode;
  int ranks = 2;
  Ending ending = {};
};

class Jobs : public testing::Environment {
public:
  void SetUp() override {
    for (const int ranks : {2, 3}) {
      for (const char* const mode : {"kill", "lost", "none"}) jobs_.push_back({mode, ranks});
    }
    for (const Case& each : cases()) jobs_.push_back({each.mode, 2});
    for (const char* const mode : {"payload", "old", "edge"}) jobs_.push_back({mode, 3});
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
      for (std::size_t i = next++; i < jobs_.size(); i = next++) {
        const TemporaryFolder folder;
        const std::string program = REEF_FAILURE_PROGRAM " " + jobs_[i].mode + " " + folder.path().string();
        // A launcher ends all ranks when one dies. Here it watches shells, so that the others are left to find out.
        const bool in_shell = jobs_[i].mode == "kill";
        jobs_[i].ending = run_ranks(REEF_TEST_MPIEXEC, jobs_[i].ranks,
                                    in_shell ? "sh -c '" + program + " || (sleep 15; false)'" : program);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < at_once; ++i) threads.emplace_back(run);
    for (std::thread& thread : threads) thread.join();
  }

  [[nodiscard]] Ending ending_of(const std::string& mode, int ranks) const {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const Job& one) { return one.mode == mode && one.ranks == ranks; });
    if (job != jobs_.end()) return job->ending;
    ADD_FAILURE() << "no such job: " << mode << ", " << ranks;
    return {};
  }

private:
  static constexpr int at_once = 6;  // they mostly wait
  std::vector<Job> jobs_;
};

// GoogleTest owns it.
const Jobs* const jobs = static_cast<Jobs*>(testing::AddGlobalTestEnvironment(new Jobs));  // NOLINT(cert-err58-cpp)

/// Who is to send the message of micro-batch 1 in the second step, who awaits it, and what they call it.
struct Transfer {
  explicit Transfer(int ranks)
      : from(ranks == 2 ? "rank 0" : "rank 1"),
        to(ranks == 2 ? "rank 1" : "rank 0"),
        way(ranks == 2 ? "activation" : "activation gradient"),
        edge(ranks == 2 ? "0" : "1"),
        name(way + " " + edge + " 'first.act' of micro-batch 1") {}
  std::string from;
  std::string to;
  std::string way;
  std::string edge;
  std::string name;
};

/// How long after its step began a rank had an error, by what it says; nothing if it says none.
std::optional<double> delay_in(const std::string& errors) {
  const std::string before = "it ended ";
  const std::size_t at = errors.find(before);
  if (at == std::string::npos) return {};
  return std::atof(errors.c_str() + at + before.size());
}

void expect_end_by(const Case& sent, int ranks) {
  const Ending ending = jobs->ending_of(sent.mode, ranks);
  const Transfer transfer(ranks);
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.output, Not(HasSubstr("all steps are done")));
  const bool damaged = sent.mode == "header" || sent.mode == "payload" || sent.mode.rfind("cut", 0) == 0;
  EXPECT_THAT(ending.errors, HasSubstr(damaged ? "a message of " + transfer.from + " to " + transfer.to + " was damaged"
                                               : transfer.to + " and " + transfer.from + " do not do the same thing"));
  EXPECT_THAT(ending.errors, HasSubstr(transfer.to + " is at transfer '" + transfer.name + "' number 1, piece "));
  EXPECT_THAT(ending.errors, HasSubstr(transfer.way + " of edge " + transfer.edge + ", micro-batch 1, step 1, round 2"));
  const std::size_t sentence = ending.errors.find("\n  " + transfer.from + " sent ");
  ASSERT_NE(sentence, std::string::npos) << ending;
  const std::string line = ending.errors.substr(sentence + 1, ending.errors.find('\n', sentence + 1) - sentence);
  EXPECT_THAT(line, HasSubstr(sent.said)) << ending;
  for (const std::string& errors : ending.errors_of) {
    const std::optional<double> delay = delay_in(errors);
    EXPECT_TRUE(delay.has_value()) << "all ranks are told:\n" << ending;
    EXPECT_LT(delay.value_or(0), deadline);
  }
}

class MessageThatIsNotNext : public testing::TestWithParam<Case> {};

TEST_P(MessageThatIsNotNext, ends_all_ranks_with_its_sender_edge_and_micro_batch) { expect_end_by(GetParam(), 2); }

INSTANTIATE_TEST_SUITE_P(Sent, MessageThatIsNotNext, testing::ValuesIn(cases()), [](const auto& tested) {
  std::string name = tested.param.mode;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(MessageThatIsNotNext, ends_stages_that_do_not_exchange_it_too) {
  for (const Case& each : cases()) {
    if (each.mode == "payload" || each.mode == "old" || each.mode == "edge") expect_end_by(each, 3);
  }
}

TEST(EndOfAPipeline, whoever_gets_what_is_next_does_all_steps) {
  for (const int ranks : {2, 3}) {
    const Ending ending = jobs->ending_of("none", ranks);
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.output, HasSubstr("all steps are done"));
  }
}

TEST(EndOfAPipeline, a_stage_that_dies_in_a_step_is_named_by_the_deadline) {
  int told = 0;
  for (const int ranks : {2, 3}) {
    const Ending ending = jobs->ending_of("kill", ranks);
    const Transfer transfer(ranks);
    EXPECT_NE(ending.status, 0);
    EXPECT_THAT(ending.output, Not(HasSubstr("all steps are done")));
    if (ending.errors.find("reef::comm:") == std::string::npos) continue;
    ++told;
    EXPECT_THAT(ending.errors, HasSubstr(transfer.from + " is silent since"));
    EXPECT_THAT(ending.errors, HasSubstr("receive '" + transfer.name + "' number 1"));
    if (ranks == 3) continue;  // of whom the last may be the first to say so, which waits for all
    const std::size_t headline = ending.errors.find(transfer.to + " waits at ");
    ASSERT_NE(headline, std::string::npos) << ending;
    EXPECT_THAT(ending.errors.substr(headline, ending.errors.find('\n', headline) - headline),
                HasSubstr("'first.act' of micro-batch "));
  }
  if (told == 0) GTEST_SKIP() << "this launcher ends the others itself";
  EXPECT_EQ(told, 2) << "of the jobs, in which the others are left to find out";
}

TEST(EndOfAPipeline, a_message_that_is_left_out_is_named_by_the_operation_deadline) {
  for (const int ranks : {2, 3}) {
    const Ending ending = jobs->ending_of("lost", ranks);
    const Transfer transfer(ranks);
    EXPECT_NE(ending.status, 0);
    EXPECT_THAT(ending.output, Not(HasSubstr("all steps are done")));
    EXPECT_THAT(ending.errors, HasSubstr("did it leave this operation out?"));
    EXPECT_THAT(ending.errors, HasSubstr("receive '" + transfer.name + "' number 1"));
  }
}

}  // namespace
}  // namespace reef::test
