#include <reef/nn/gpt2_config.hpp>

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using testing::AllOf;
using testing::HasSubstr;

/// The fields of the hub's gpt2/config.json.
const std::string hub = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
  "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
  "vocab_size": 50257})";

class Gpt2Config : public testing::Test {
protected:
  nn::GptConfig read(const std::string& text) {
    io::write_atomically(path(), text);
    return nn::read_gpt2_config(path());
  }
  /// The hub's with one field set to another value, given as JSON.
  static std::string with(const std::string& field, const std::string& value) {
    io::Json json = io::Json::parse(hub);
    json[field] = io::Json::parse(value);
    return json.dump();
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "config.json"; }

private:
  test::TemporaryFolder folder_;
};

TEST_F(Gpt2Config, of_the_hubs_gpt2_is_the_default) {
  const nn::GptConfig config = read(hub);
  const nn::GptConfig usual;
  EXPECT_EQ(config.layers, usual.layers);
  EXPECT_EQ(config.heads, usual.heads);
  EXPECT_EQ(config.channels, usual.channels);
  EXPECT_EQ(config.context, usual.context);
  EXPECT_EQ(config.vocabulary, usual.vocabulary);
  EXPECT_EQ(config.dropout, 0);
}

TEST_F(Gpt2Config, that_is_written_is_read_back) {
  nn::GptConfig config{.layers = 3, .heads = 2, .channels = 10, .vocabulary = 37, .context = 9};
  config.padded_vocabulary = 64;
  config.dropout = 0.1F;
  nn::write_gpt2_config(path(), config);
  const nn::GptConfig found = nn::read_gpt2_config(path());
  EXPECT_EQ(found.layers, 3);
  EXPECT_EQ(found.heads, 2);
  EXPECT_EQ(found.channels, 10);
  EXPECT_EQ(found.vocabulary, 37) << "padding is in memory alone";
  EXPECT_EQ(found.context, 9);
  config.heads = 3;
  EXPECT_THROW(nn::write_gpt2_config(path(), config), OptionError);
}

TEST_F(Gpt2Config, of_a_model_that_no_gpt_is_names_the_field) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"model_type", "\"gpt_neo\""},
                                                        {"activation_function", "\"gelu\""},
                                                        {"activation_function", "\"relu\""},
                                                        {"n_inner", "1024"},
                                                        {"layer_norm_epsilon", "1e-06"},
                                                        {"scale_attn_weights", "false"},
                                                        {"scale_attn_by_inverse_layer_idx", "true"},
                                                        {"tie_word_embeddings", "false"},
                                                        {"architectures", R"(["GPT2DoubleHeadsModel"])"},
                                                        {"quantization_config", R"({"bits": 4})"},
                                                        {"add_cross_attention", "true"},
                                                        {"is_encoder_decoder", "true"},
                                                        {"final_logit_softcapping", "30.0"},
                                                        {"pruned_heads", R"({"0": [1]})"},
                                                        {"n_inner", "-3072"},
                                                        {"n_layer", "\"12\""},
                                                        {"n_head", "null"},
                                                        {"n_head", "0"},
                                                        {"n_positions", "-1"},
                                                        {"vocab_size", "50257.5"}}) {
    try {
      read(with(field, value));
      ADD_FAILURE() << field << " was read as " << value;
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(field), HasSubstr(path().string()), HasSubstr("\n  fix: ")));
    }
  }
  for (const char* usual :
       {"n_inner", "activation_function", "layer_norm_epsilon", "scale_attn_weights"})
    EXPECT_EQ(read(with(usual, "null")).channels, 768) << usual;
  EXPECT_EQ(read(with("n_inner", "3072")).channels, 768);
  EXPECT_EQ(read(with("add_cross_attention", "false")).channels, 768);
  EXPECT_EQ(read(with("activation_function", "\"gelu_pytorch_tanh\"")).channels, 768);
  EXPECT_EQ(read(with("pruned_heads", "{}")).channels, 768);
  for (const auto& [field, value, said] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"activation_function", "\"gelu\"", "activation_function is 'gelu', not gelu_new"},
           {"n_inner", "1024", "n_inner is 1024, not 4 n_embd"},
           {"layer_norm_epsilon", "1e-06", "layer_norm_epsilon is 1e-06, not 1e-5"},
           {"scale_attn_weights", "false", "scale_attn_weights is false, not true"}}) {
    try {
      read(with(field, value));
      ADD_FAILURE() << field << " was read as " << value;
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), HasSubstr(said));
    }
  }
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"n_head", "7"}, {"n_embd", "9223372036854775807"}}) {
    try {
      read(with(field, value));
      ADD_FAILURE() << field << " was read as " << value;
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path().string()), HasSubstr("channels is "),
                                      HasSubstr("\n  fix: ")));
    }
  }
  EXPECT_THROW(read("[]"), DecodeError);
  EXPECT_THROW(nn::read_gpt2_config(path().string() + "x"), FileError);
}

}  // namespace
