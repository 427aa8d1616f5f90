// Texts with labels: what is read of a file.

#include <reef/data/labelled_texts.hpp>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/io/atomic_file.hpp>

#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace {

TEST(LabelledTexts, are_a_json_object_a_line_and_refused_by_file_line_and_member) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.jsonl";
  const auto read = [&](const std::string& text) {
    io::write_atomically(file, text);
    return data::read_labelled_texts(file, 3);
  };
  const auto texts = read("{\"text\": \"well\", \"label\": 2, \"more\": [1]}\r\n\n  \n{\"label\": 0, \"text\": \"\xc3\xa9\"}");
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0].text, "well");
  EXPECT_EQ(texts[0].label, 2);
  EXPECT_EQ(texts[1].text, "\xc3\xa9");
  EXPECT_EQ(texts[1].label, 0);
  const auto refused = [&](const std::string& text) {
    try {
      (void)read(text);
    } catch (const DecodeError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::string good = "{\"text\": \"a\", \"label\": 1}\n";
  EXPECT_THAT(refused(good + "{\"text\": \"a\", \"label\": 3}"), testing::HasSubstr("a.jsonl, line 2: label is 3, of 3 classes"));
  EXPECT_THAT(refused("{\"text\": \"a\", \"label\": -1}"), testing::HasSubstr("label is -1"));
  EXPECT_THAT(refused("\n{\"text\": \"\", \"label\": 1}"), testing::HasSubstr("line 2: the text is empty"));
  EXPECT_THAT(refused(good + "{\"text\": \"a\"}"), testing::HasSubstr("label"));
  EXPECT_THAT(refused("{\"text\": \"a\", \"label\": 1.5}"), testing::HasSubstr("label"));
  EXPECT_THAT(refused("{\"text\": 1, \"label\": 1}"), testing::HasSubstr("text"));
  EXPECT_THAT(refused("[]"), testing::HasSubstr("line 1"));
  EXPECT_THAT(refused("{"), testing::HasSubstr("line 1"));
  EXPECT_THAT(refused("\n\n"), testing::HasSubstr("no texts"));
  EXPECT_THROW((void)data::read_labelled_texts(folder.path() / "none", 2), FileError);
}

}  // namespace
}  // namespace reef::test
