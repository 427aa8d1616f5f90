// The config.json of BLOOM and GPT-NeoX.

#include <reef/nn/bloom_config.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/gpt_neox_config.hpp>
#include <reef/nn/model_config.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using nn::BloomConfig;
using nn::GptNeoxConfig;
using testing::AllOf;
using testing::HasSubstr;
using Fields = std::vector<std::pair<std::string, std::string>>;

/// The fields of BLOOM 560M's config.json.
const std::string bloom560m = R"({
  "apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0, "architectures": ["BloomForCausalLM"],
  "attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3,
  "hidden_dropout": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": true,
  "model_type": "bloom", "n_embed": 1024, "n_inner": null, "n_layer": 24, "num_attention_heads": 16, "offset_alibi": 100,
  "pretraining_tp": 1, "seq_length": 2048, "skip_bias_add": true, "skip_bias_add_qkv": false, "slow_but_exact": false,
  "unk_token_id": 0, "use_cache": true, "vocab_size": 250880})";

/// The fields of Pythia 160M's config.json.
const std::string pythia160m = R"({
  "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu", "hidden_size": 768,
  "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
  "model_type": "gpt_neox", "num_attention_heads": 12, "num_hidden_layers": 12, "rotary_emb_base": 10000, "rotary_pct": 0.25,
  "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true, "use_parallel_residual": true, "vocab_size": 50304})";

class ConfigFile : public testing::Test {
protected:
  nn::ModelConfig read(const std::string& text) {
    io::write_atomically(path(), text);
    return nn::read_model_config(path());
  }
  BloomConfig bloom(const Fields& fields = {}) { return std::get<BloomConfig>(read(with(bloom560m, fields))); }
  GptNeoxConfig neox(const Fields& fields = {}) { return std::get<GptNeoxConfig>(read(with(pythia160m, fields))); }

  /// A text with fields set to other values, given as JSON; an empty one takes the field away.
  static std::string with(const std::string& text, const Fields& fields) {
    io::Json json = io::Json::parse(text);
    for (const auto& [field, value] : fields) {
      if (value.empty()) {
        json.erase(field);
      } else {
        json[field] = io::Json::parse(value);
      }
    }
    return json.dump();
  }
  std::string refusal(const std::string& text) {
    try {
      (void)read(text);
      return "it was read";
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path().string()), HasSubstr("\n  fix: ")));
      return error.what();
    }
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "config.json"; }

private:
  test::TemporaryFolder folder_;
};

class BloomConfigFile : public ConfigFile {};
class GptNeoxConfigFile : public ConfigFile {};

TEST_F(BloomConfigFile, is_what_it_says_by_either_name_of_a_size) {
  EXPECT_EQ(bloom(), BloomConfig());
  EXPECT_EQ(bloom({{"n_embed", ""}, {"hidden_size", "1024"}, {"n_layer", ""}, {"num_hidden_layers", "24"}, {"n_head", "16"}}),
            BloomConfig());
  EXPECT_EQ(bloom({{"seq_length", ""}, {"layer_norm_epsilon", "null"}}), BloomConfig()) << "what Hugging Face takes";
  EXPECT_EQ(bloom({{"seq_length", "512"}}).context, 512);
  EXPECT_EQ(bloom({{"layer_norm_epsilon", "0.01"}}).epsilon, 0.01);
  EXPECT_FALSE(bloom({{"tie_word_embeddings", "false"}}).tied);
  EXPECT_EQ(bloom({{"pretraining_tp", "4"}}), BloomConfig()) << "slices that are not used";
  EXPECT_EQ(bloom({{"slow_but_exact", "true"}}), BloomConfig()) << "one slice";
}

TEST_F(BloomConfigFile, that_is_written_is_read_back) {
  BloomConfig config{.layers = 3, .heads = 5, .channels = 20, .vocabulary = 99, .context = 70};
  config.epsilon = 0.1 + 0.2;
  config.tied = false;
  for (const BloomConfig& wanted : {config, BloomConfig()}) {
    nn::write_bloom_config(path(), wanted);
    EXPECT_EQ(nn::read_bloom_config(path()), wanted);
  }
  config.layers = 0;
  EXPECT_THROW(nn::write_bloom_config(path(), config), OptionError);
}

TEST_F(BloomConfigFile, of_a_model_that_no_bloom_is_names_the_field) {
  for (const auto& [field, value] : Fields{{"architectures", R"(["BloomForTokenClassification"])"},
                                           {"apply_residual_connection_post_layernorm", "true"},
                                           {"quantization_config", R"({"bits": 4})"},
                                           {"logit_scale", "2"},
                                           {"n_inner", "1024"},
                                           {"num_key_value_heads", "2"},
                                           {"alibi_bias_max", "16"},
                                           {"hidden_size", "1000"},
                                           {"n_head", "8"},
                                           {"n_layer", "0"},
                                           {"n_embed", "\"1024\""},
                                           {"vocab_size", ""},
                                           {"seq_length", "-1"},
                                           {"layer_norm_epsilon", "\"small\""}}) {
    EXPECT_THAT(refusal(with(bloom560m, {{field, value}})), HasSubstr(field == "n_head" ? "num_attention_heads" : field)) << value;
  }
  EXPECT_THAT(refusal(with(bloom560m, {{"pretraining_tp", "4"}, {"slow_but_exact", "true"}})),
              HasSubstr("pretraining_tp is 4 with slow_but_exact, which a bloom() cannot be"));
  EXPECT_THAT(refusal(with(bloom560m, {{"num_attention_heads", "7"}})), HasSubstr("is of no bloom(): reef::nn::BloomConfig: channels is 1024"));
  io::write_atomically(path(), pythia160m);
  EXPECT_THROW((void)nn::read_bloom_config(path()), DecodeError);
}

TEST_F(BloomConfigFile, may_have_longer_sequences_than_its_context) {
  const nn::ModelConfig config = bloom();
  EXPECT_EQ(nn::longest_sequence(config), 1 << 24);
  EXPECT_EQ(std::get<BloomConfig>(nn::with_batch(config, {.batch = 2, .sequence = 5000})).length(), 5000);
}

TEST_F(GptNeoxConfigFile, is_what_it_says) {
  GptNeoxConfig wanted;
  wanted.turned = 16;
  EXPECT_EQ(neox(), wanted);
  EXPECT_EQ(neox({{"rotary_pct", ""}, {"rotary_emb_base", ""}, {"layer_norm_eps", "null"}, {"use_parallel_residual", ""}, {"hidden_act", ""}}),
            wanted)
      << "what Hugging Face takes";
  EXPECT_EQ(nn::longest_sequence(neox()), 2048);
  EXPECT_THROW((void)nn::with_batch(neox(), {.sequence = 2049}), OptionError);
}

TEST_F(GptNeoxConfigFile, reads_what_changes_its_numbers) {
  EXPECT_EQ(neox({{"rotary_pct", "1.0"}}).turned, 0) << "all";
  EXPECT_EQ(neox({{"rotary_pct", "0.29"}}).turned, 18) << "18.56 columns, rounded down";
  EXPECT_EQ(neox({{"rotary_pct", ""}, {"partial_rotary_factor", "0.5"}}).turned, 32);
  const GptNeoxConfig newer = neox({{"rotary_pct", ""}, {"rotary_emb_base", ""},
                                    {"rope_parameters", R"({"rope_type": "default", "rope_theta": 700, "partial_rotary_factor": 0.5})"}});
  EXPECT_EQ(newer.turned, 32);
  EXPECT_EQ(newer.rotary.theta, 700);
  EXPECT_EQ(neox({{"rotary_emb_base", "500"}}).rotary.theta, 500);
  EXPECT_EQ(neox({{"rotary_emb_base", ""}, {"rope_theta", "500"}}).rotary.theta, 500);
  EXPECT_EQ(neox({{"rope_scaling", R"({"type": "linear", "factor": 4})"}}).rotary.factor, 4);
  EXPECT_FALSE(neox({{"use_parallel_residual", "false"}}).parallel);
  EXPECT_FALSE(neox({{"attention_bias", "false"}}).attention_bias);
  EXPECT_TRUE(neox({{"tie_word_embeddings", "true"}}).tied);
  EXPECT_TRUE(neox().exact_gelu);
  for (const char* const act : {"\"gelu_new\"", "\"gelu_fast\"", "\"gelu_pytorch_tanh\""}) {
    EXPECT_FALSE(neox({{"hidden_act", act}}).exact_gelu) << act;
  }
}

TEST_F(GptNeoxConfigFile, that_is_written_is_read_back) {
  for (const std::int64_t turned : {0, 2, 10, 42, 62}) {
    GptNeoxConfig config = neox({{"use_parallel_residual", "false"}, {"hidden_act", "\"gelu_fast\""}, {"attention_bias", "false"},
                                 {"tie_word_embeddings", "true"}, {"rope_scaling", R"({"type": "linear", "factor": 4})"}});
    config.turned = turned;
    nn::write_gpt_neox_config(path(), config);
    EXPECT_EQ(nn::read_gpt_neox_config(path()), config) << turned;
  }
  GptNeoxConfig config;
  config.hidden = 0;
  EXPECT_THROW(nn::write_gpt_neox_config(path(), config), OptionError);
}

TEST_F(GptNeoxConfigFile, of_a_model_that_no_gpt_neox_is_names_the_field) {
  for (const auto& [field, value] : Fields{{"architectures", R"(["GPTNeoXForTokenClassification"])"},
                                           {"hidden_act", "\"relu\""},
                                           {"rotary_pct", "0"},
                                           {"rotary_pct", "1.5"},
                                           {"rotary_pct", "0.3"},
                                           {"rotary_pct", "0.01"},
                                           {"partial_rotary_factor", "0.5"},
                                           {"rope_parameters", R"({"rope_type": "default", "partial_rotary_factor": 0.5})"},
                                           {"num_key_value_heads", "4"},
                                           {"rope_theta", "500"},
                                           {"rope_scaling", R"({"type": "dynamic", "factor": 4})"},
                                           {"rope_parameters", R"({"rope_type": "default", "partial_rotary_factor": 3})"},
                                           {"quantization_config", R"({"bits": 4})"},
                                           {"intermediate_size", ""},
                                           {"max_position_embeddings", "0"},
                                           {"use_parallel_residual", "1"}}) {
    EXPECT_THAT(refusal(with(pythia160m, {{field, value}})), HasSubstr(field)) << value;
  }
  EXPECT_THAT(refusal(with(pythia160m, {{"partial_rotary_factor", "0.5"}})),
              HasSubstr("rotary_pct is there beside partial_rotary_factor"));
  EXPECT_THAT(refusal(with(pythia160m, {{"rotary_pct", "0.3"}})), HasSubstr("rotary_pct is 0.3, 19 of 64 columns of a head"));
  EXPECT_THAT(refusal(with(pythia160m, {{"num_attention_heads", "7"}})), HasSubstr("channels is 768"));
  EXPECT_THAT(refusal(with(pythia160m, {{"rotary_emb_base", "0"}})), HasSubstr("rotary.theta is 0"));
}

}  // namespace
