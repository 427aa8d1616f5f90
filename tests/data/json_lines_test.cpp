#include <reef/data/json_lines.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <support/temporary_folder.hpp>

namespace {

using namespace reef;
using testing::ElementsAre;
using testing::HasSubstr;

void write_lines(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

TEST(JsonLines, are_given_with_their_numbers_without_those_that_are_empty) {
  const test::TemporaryFolder folder;
  write_lines(folder / "lines.jsonl", std::string("{\"n\":1}\r\n\n \t\n{\"n\":2}"));
  std::vector<std::string> seen;
  data::for_each_json_line(folder / "lines.jsonl", [&](const io::Json& json, const std::string& source) {
    seen.push_back(json.dump() + source.substr(source.rfind(',')));
  });
  EXPECT_THAT(seen, ElementsAre("{\"n\":1}, line 1", "{\"n\":2}, line 4"));
}

TEST(JsonLines, that_are_no_objects_are_refused_with_file_and_line_after_those_before) {
  const test::TemporaryFolder folder;
  for (const std::string bad : {"[1]", "7", "{\"n\":", "no json", "{} {}"}) {
    write_lines(folder / "bad.jsonl", "{}\n" + bad + "\n{}\n");
    int count = 0;
    try {
      data::for_each_json_line(folder / "bad.jsonl", [&](const io::Json&, const std::string&) { ++count; });
      ADD_FAILURE() << bad;
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("bad.jsonl, line 2")) << bad;
    }
    EXPECT_EQ(count, 1) << bad;
  }
  EXPECT_THROW(data::for_each_json_line(folder / "none.jsonl", [](const io::Json&, const std::string&) {}), FileError);
}

}  // namespace
