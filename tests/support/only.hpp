#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace reef::test {

/// `--only=gather_test.cpp`: of a program of several sources, the tests of one. All others are added to
/// what GoogleTest's own filter leaves out, so both hold. Called after InitGoogleTest.
///
/// Says why and returns false if that source has no test, or if any test is in a header: GoogleTest does
/// not know who included it, so its entry would leave it out.
inline bool keep_one_source(int argc, char** argv) {
  constexpr std::string_view option = "--only=";
  std::string_view argument;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(option)) argument = argv[i];
  }
  if (argument.empty()) return true;
  const std::filesystem::path source = argument.substr(option.size());

  bool found = false;
  std::string left_out;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *program.GetTestSuite(s);
    const std::string prefix = std::string(":") + suite.name() + ".";
    bool found_here = false;
    std::string others;
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::filesystem::path file = test.file();
      if (file.filename() == source) {
        found_here = true;
      } else if (file.extension() == ".cpp") {
        others += prefix + test.name();
      } else {
        std::fprintf(stderr, "%s: %s.%s is in %s, so no source can be told to have it.\n", argv[0],
                     suite.name(), test.name(), test.file());
        return false;
      }
    }
    found = found || found_here;
    left_out += found_here ? others : prefix + "*";
  }
  if (!found) {
    std::fprintf(stderr, "%s: no test of this program is in %s.\n", argv[0], source.c_str());
    return false;
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  if (!left_out.empty()) {
    filter += filter.find('-') == std::string::npos ? "-" + left_out.substr(1) : left_out;
  }
  return true;
}

}  // namespace reef::test
