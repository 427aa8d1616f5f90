#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job.hpp"

// A sanitizer that is switched off in silence (by an option, a suppression, a library that was built
// without) lets every test pass. So it must report what is planted, under the options of all tests.

namespace reef::test {

namespace {

using testing::HasSubstr;

const std::string sanitizers = REEF_TEST_SANITIZE;  // as in the preset: "address,undefined"

Ending plant(const std::string& fault) { return run_command(REEF_PLANTED_FAULT " " + fault); }

/// The planted fault ends the program, and the sanitizer says what it is.
void expect_report(const std::string& fault, const std::string& report) {
  const Ending ending = plant(fault);
  EXPECT_NE(ending.status, 0) << "nobody noticed: " << ending;
  EXPECT_THAT(ending.errors, HasSubstr(report));
}

#define REEF_NEEDS_SANITIZER(name, preset)        \
  if (sanitizers.find(name) == std::string::npos) \
  GTEST_SKIP() << "needs the " name " sanitizer: configure with --preset " preset

TEST(Sanitizers, have_nothing_to_say_of_a_program_without_a_fault) {
  const Ending ending = plant("none");
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_EQ(ending.output, "came to its end with 0\n");
  EXPECT_EQ(ending.errors, "");
}

TEST(Sanitizers, report_a_race_on_a_lane) {
  REEF_NEEDS_SANITIZER("thread", "tsan");
  expect_report("race", "ThreadSanitizer: data race");
}

TEST(Sanitizers, report_a_leak) {
  REEF_NEEDS_SANITIZER("address", "asan");
  expect_report("leak", "LeakSanitizer: detected memory leaks");
}

TEST(Sanitizers, report_a_write_behind_a_buffer_on_a_lane) {
  REEF_NEEDS_SANITIZER("address", "asan");
  expect_report("overrun", "AddressSanitizer: heap-buffer-overflow");
}

TEST(Sanitizers, report_an_integer_that_overflows) {
  REEF_NEEDS_SANITIZER("undefined", "asan");
  expect_report("overflow", "runtime error: signed integer overflow");
}

}  // namespace

}  // namespace reef::test
