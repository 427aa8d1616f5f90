// Samples of a .jsonl that have nothing to learn in a context are left out by file and line; others are cut.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>

#include "../../examples/support/text_source.hpp"
#include "../support/temporary_folder.hpp"

namespace {

using reef::concat;
using reef_examples::DataOptions;
using reef_examples::Tokenizer;
using reef_examples::TrainingData;
using testing::HasSubstr;

std::string pair_of(std::size_t prompt, std::size_t completion) {
  return concat(R"({"prompt": ")", std::string(prompt, 'a'), R"(", "completion": ")", std::string(completion, 'b'), "\"}\n");
}

DataOptions options_of(std::int64_t context, const std::string& chat_template = "") {
  DataOptions options;
  options.context = context;
  options.chat_template = chat_template;
  return options;
}

class TrainingPairs : public testing::Test {
protected:
  std::filesystem::path write(const std::string& text) const {
    reef::test::write_file(folder_ / "pairs.jsonl", text);
    return folder_ / "pairs.jsonl";
  }
  Tokenizer bytes_{"bytes"};

private:
  reef::test::TemporaryFolder folder_;
};

TEST_F(TrainingPairs, whose_prompt_fills_the_context_are_left_out_by_file_and_line) {
  // A prompt of 8 in a context of 8 leaves one target, a completion of 9 is cut.
  const auto file = write(pair_of(3, 2) + pair_of(9, 1) + "\n" + pair_of(8, 1) + pair_of(20, 3) + pair_of(1, 9) + pair_of(0, 1));
  const TrainingData data({file}, bytes_, options_of(8));
  EXPECT_EQ(data.training_pairs().size() + data.validation_pairs().size(), 3U);
  for (const auto& pairs : {data.training_pairs(), data.validation_pairs()}) {
    for (const auto& pair : pairs) EXPECT_LE(pair.prompt, 8U);
  }
  ASSERT_FALSE(data.notes().empty());
  EXPECT_EQ(data.notes()[0], concat("data: 3 of 6 samples left out, which have nothing to learn: ", file.string(),
                                    ", line 2 has 9 tokens in front of what is learnt, and --context has 8; others likewise"));
  const auto rows = reef_examples::source_of_pairs(data.training_pairs(), {.context = 8}, 1, false);
  EXPECT_TRUE(rows != nullptr) << "the sampler takes what is left";
}

TEST_F(TrainingPairs, that_all_have_nothing_to_learn_are_refused_by_file_and_line) {
  const auto file = write("\n" + pair_of(9, 1) + pair_of(10, 1));
  try {
    const TrainingData data({file}, bytes_, options_of(8));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const reef::OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr(concat("no sample has anything to learn: ", file.string(), ", line 2 has 9 tokens")));
    EXPECT_THAT(error.what(), HasSubstr("fix: more --context"));
  }
}

TEST_F(TrainingPairs, of_conversations_are_left_out_likewise) {
  const auto talk = [](const std::string& question) {
    return concat(R"({"messages": [{"role": "user", "content": ")", question,
                  R"("}, {"role": "assistant", "content": "yes"}]})", "\n");
  };
  const auto file = write(talk("a") + talk(std::string(50, 'q')) + talk("b"));
  const TrainingData data({file}, bytes_, options_of(40, "plain"));
  EXPECT_EQ(data.training_pairs().size() + data.validation_pairs().size(), 2U);
  EXPECT_THAT(data.notes(), testing::Contains(HasSubstr(concat("1 of 3 samples left out, which have nothing to learn: ", file.string(),
                                                               ", line 2 has "))));
}

}  // namespace
