#include <reef/nn/end_tokens.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EndTokens : public testing::Test {
protected:
  void write(const std::string& name, const std::string& text) const { test::write_file(folder_ / name, text); }
  [[nodiscard]] std::vector<std::int32_t> read() const { return nn::end_tokens(folder_.path()); }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)read();
      return "it was read";
    } catch (const DecodeError& error) {
      return error.what();
    }
  }

private:
  test::TemporaryFolder folder_;
};

TEST_F(EndTokens, are_those_of_the_generation_config_before_those_of_the_config) {
  EXPECT_THAT(read(), IsEmpty());
  write("config.json", R"({"model_type": "llama"})");
  EXPECT_THAT(read(), IsEmpty());
  write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(read(), ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(read(), ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": [128001, 128008]})");
  EXPECT_THAT(read(), ElementsAre(128001, 128008));
  write("generation_config.json", R"({"eos_token_id": []})");
  EXPECT_THAT(read(), IsEmpty()) << "a list says that there are none";
}

TEST_F(EndTokens, that_are_no_numbers_are_refused_by_file) {
  for (const char* const bad : {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [1, 2.5]})",
                                R"({"eos_token_id": 5000000000})", R"({"eos_token_id": {}})", "[1]", "{"}) {
    write("config.json", bad);
    EXPECT_THAT(refusal(), HasSubstr("config.json")) << bad;
  }
}

}  // namespace
