#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "../support/job.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {

using testing::HasSubstr;

/// Runs of reef-plan on cases of known answers and on what is made of them.
class ReefPlan : public testing::Test {
protected:
  /// A file of cases.
  static io::Json file(const std::string& name) {
    return io::read_json(std::string(REEF_TEST_DATA) + "/" + name);
  }
  /// One of its cases.
  static io::Json case_of(const std::string& name, std::size_t index) {
    return file(name).at("cases").at(index);
  }
  /// One of examples/graphs.
  static std::string graph(const std::string& name) {
    return (std::filesystem::path(REEF_README).parent_path() / "examples" / "graphs" / name).string();
  }
  static io::Json with(io::Json test, const std::string& at, const io::Json& value) {
    test[io::Json::json_pointer(at)] = value;
    return test;
  }

  Ending plan(const std::string& command, const std::string& text, const std::string& more = "") {
    write_file(folder_ / "case.json", text);
    return run_command(std::string(REEF_PLAN) + " " + command + " " +
                       (folder_ / "case.json").string() + " " + more);
  }

  /// The answer: one JSON object, which is all of standard output.
  io::Json answer(const std::string& command, const io::Json& test, const std::string& more = "") {
    const Ending ending = plan(command, test.dump(), more);
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.output, testing::StartsWith("{")) << ending;
    return io::parse_json(ending.output, "answer");
  }

  /// Holds that an ending is a line of reef-plan with this in it, on standard error alone, and status 2.
  static void expect_refusal(const Ending& ending, const std::string& text) {
    EXPECT_EQ(ending.status, 2) << ending;
    EXPECT_EQ(ending.output, "");
    EXPECT_EQ(std::count(ending.errors.begin(), ending.errors.end(), '\n'), 1) << ending;
    EXPECT_THAT(ending.errors, testing::StartsWith("reef-plan: "));
    EXPECT_THAT(ending.errors, HasSubstr(text));
  }
  void refused(const std::string& command, const io::Json& test, const std::string& text,
               const std::string& more = "") {
    expect_refusal(plan(command, test.dump(), more), text);
  }
  void refused(const std::string&, const char*, const std::string&) = delete;  // a text: plan()

  TemporaryFolder folder_;
};

}  // namespace reef::test
