#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

// This program's other source has tests that count themselves too. See tests/support/only.hpp.

namespace {

std::set<std::string> sources_that_run() {
  std::set<std::string> sources;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (test.should_run()) sources.insert(std::filesystem::path(test.file()).filename());
    }
  }
  return sources;
}

TEST(Only, runs_the_tests_of_one_source_of_two) {
  EXPECT_EQ(sources_that_run(), std::set<std::string>{"only_test.cpp"});
  EXPECT_EQ(testing::UnitTest::GetInstance()->test_to_run_count(), 2);
}

TEST(OnlyHere, is_a_suite_of_its_own) {}

}  // namespace
