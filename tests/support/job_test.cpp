// How tests start programs, tested: what a program prints comes back whole, each stream by itself.

#include <string>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "job.hpp"

namespace reef::test {

namespace {

/// A launcher of one rank that has this number.
std::string launcher_of(const std::string& rank) {
  return "env " + rank + " sh -c 'shift 2; echo from the launcher >&2; exec \"$@\"' sh";
}

TEST(RunCommand, keeps_standard_output_and_error_apart) {
  const Ending ending = run_command("sh -c 'echo one; echo two >&2; echo three; exit 3'");
  EXPECT_EQ(ending.status, 3);
  EXPECT_EQ(ending.output, "one\nthree\n");
  EXPECT_EQ(ending.errors, "two\n");
}

TEST(RunCommand, waits_for_no_reader_of_what_is_longer_than_a_pipe) {
  const Ending ending =
      run_command("sh -c 'seq 100000 >&2; seq 100000; seq 100000 >&2; echo the end'");
  EXPECT_EQ(ending.errors.size(), 2 * 588'895U);
  EXPECT_EQ(ending.output.size(), 588'895U + 8);
}

TEST(RunCommand, ends_what_hangs_and_fails) {
  EXPECT_NONFATAL_FAILURE(run_command("sh -c 'echo so far; exec sleep 1000'", 1), "so far");
}

TEST(RunRanks, have_a_text_each_of_what_they_write_on_standard_error) {
  for (const char* const rank : {"OMPI_COMM_WORLD_RANK=0", "PMI_RANK=0"}) {
    const Ending ending =
        run_ranks(launcher_of(rank), 1, "sh -c 'echo out; printf \"no newline\" >&2; exit 4'");
    EXPECT_EQ(ending.status, 4);
    EXPECT_EQ(ending.output, "out\n");
    EXPECT_EQ(ending.errors_of, std::vector<std::string>{"no newline\n"});
    EXPECT_EQ(ending.errors, "no newline\n");
    EXPECT_EQ(ending.errors_of_launcher, "from the launcher\n");
  }
}

TEST(LinesThatBeginWith, are_counted_from_the_first_on) {
  EXPECT_EQ(lines_that_begin_with("a: ", ""), 0);
  EXPECT_EQ(lines_that_begin_with("a: ", "a: 1\nb: a: 2\na: 3"), 2);
}

}  // namespace

}  // namespace reef::test
