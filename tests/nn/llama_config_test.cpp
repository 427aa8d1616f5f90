#include <reef/nn/llama_json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/model_config.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using nn::LlamaConfig;
using nn::LlamaFamily;
using testing::AllOf;
using testing::HasSubstr;

/// The fields of Llama 3.1 8B's config.json.
const std::string llama3 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
  "eos_token_id": [128001, 128008], "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256})";

/// The least that a small model says.
const std::string small =
    R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "intermediate_size": 88, "vocab_size": 97, "max_position_embeddings": 64})";

class LlamaConfigFile : public testing::Test {
protected:
  LlamaConfig read(const std::string& text) {
    io::write_atomically(path(), text);
    return nn::read_llama_config(path());
  }
  /// A text with fields set to other values, given as JSON.
  static std::string with(const std::string& text,
                          const std::vector<std::pair<std::string, std::string>>& fields) {
    io::Json json = io::Json::parse(text);
    for (const auto& [field, value] : fields) json[field] = io::Json::parse(value);
    return json.dump();
  }
  std::string refusal(const std::string& text) {
    try {
      read(text);
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

TEST_F(LlamaConfigFile, of_llama_3_1_is_what_it_says) {
  const LlamaConfig wanted{.layers = 32,
                           .heads = 32,
                           .kv_heads = 8,
                           .head_size = 128,
                           .channels = 4096,
                           .hidden = 14336,
                           .vocabulary = 128256,
                           .context = 131072,
                           .epsilon = 1e-5,
                           .rotary = {500000, 8, 8192, 1, 4},
                           .tied = false};
  EXPECT_EQ(read(llama3), wanted);
  EXPECT_EQ(
      read(with(llama3, {{"rope_scaling", "null"},
                         {"rope_theta", "null"},
                         {"rope_parameters", io::Json::parse(llama3)["rope_scaling"].dump().insert(
                                                 1, "\"rope_theta\": 500000,")}})),
      wanted);
}

TEST_F(LlamaConfigFile, of_llama_3_2_1b_is_the_default_but_for_scaled_positions) {
  LlamaConfig wanted;
  wanted.head_size = 64;
  wanted.rotary = {500000, 32, 8192, 1, 4};
  EXPECT_EQ(read(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
    "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true,
    "vocab_size": 128256})"),
            wanted);
}

TEST_F(LlamaConfigFile, of_published_models_is_read) {
  const std::string llama2 = R"({"_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 11008, "max_position_embeddings": 4096, "max_sequence_length": 2048, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 0,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
    "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true, "vocab_size": 32000})";
  EXPECT_EQ(read(llama2).hidden, 11008);
  const std::string smollm2 = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576,
    "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": true,
    "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 9,
    "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
    "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 49152})";
  EXPECT_EQ(read(smollm2).layers, 30);
  const std::string qwen25 = R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
    "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.43.1", "use_cache": true, "use_mrope": false, "use_sliding_window": false,
    "vocab_size": 151936})";
  EXPECT_EQ(read(qwen25).window, 0);
  const std::string qwen3 = R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
    "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
    "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
    "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";
  EXPECT_TRUE(read(qwen3).norm_heads);
  const std::string mistral = R"({"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
    "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": true,
    "vocab_size": 32000})";
  EXPECT_EQ(read(mistral).window, 4096);
}

TEST_F(LlamaConfigFile, with_a_field_that_is_not_known_is_refused_by_its_name) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"clip_qkv", "8.0"},
           {"use_qk_norm", "true"},
           {"qk_layernorm", "true"},
           {"alibi", "true"},
           {"scale_emb", "12"},
           {"scale_depth", "1.4"},
           {"rope_interleaved", "true"},
           {"rope_type", "\"yarn\""},
           {"qkv_bias", "true"},
           {"hidden_activation", "\"gelu\""},
           {"auto_map", R"({"AutoModelForCausalLM": "modeling_x.Mine"})"},
           {"sliding_window", "16"},
           {"some_field_of_tomorrow", "1"}}) {
    EXPECT_THAT(refusal(with(small, {{field, value}})),
                AllOf(HasSubstr(concat("'", field, "' is ")), HasSubstr("remove it from the file")))
        << value;
    for (const char* const nothing : {"null", "false", "{}", "[]", "\"\""}) {
      EXPECT_EQ(read(with(small, {{field, nothing}})), read(small)) << field << nothing;
    }
  }
  for (const char* const field : {"mlp_bias", "attention_bias"}) {
    EXPECT_THAT(refusal(with(small, {{"model_type", "\"mistral\""}, {"num_key_value_heads", "4"}, {field, "true"}})),
                HasSubstr(field));
  }
}

TEST_F(LlamaConfigFile, takes_what_hugging_face_takes_where_a_field_is_left_out) {
  const LlamaConfig plain{.layers = 2,
                          .heads = 4,
                          .kv_heads = 4,
                          .head_size = 8,
                          .channels = 32,
                          .hidden = 88,
                          .vocabulary = 97,
                          .context = 64,
                          .epsilon = 1e-6,
                          .rotary = {10000},
                          .tied = false};
  EXPECT_EQ(read(small), plain);
  EXPECT_EQ(read(with(small, {{"layer_types", R"(["full_attention", "full_attention"])"},
                              {"rope_parameters", R"({"rope_type": "default", "factor": null, "rope_theta": 10000})"}})),
            plain);
  LlamaConfig wanted = plain;
  wanted.family = LlamaFamily::mistral;
  wanted.window = 4096;
  EXPECT_EQ(read(with(small, {{"model_type", "\"mistral\""}, {"num_key_value_heads", "4"}})),
            wanted);
  wanted.window = 0;
  EXPECT_EQ(read(with(small, {{"model_type", "\"mistral\""},
                              {"num_key_value_heads", "4"},
                              {"sliding_window", "null"}})),
            wanted);
  wanted = plain;
  wanted.family = LlamaFamily::qwen2;
  wanted.query_bias = true;
  EXPECT_EQ(read(with(small, {{"model_type", "\"qwen2\""},
                              {"num_key_value_heads", "4"},
                              {"sliding_window", "16"}})),
            wanted)
      << "a window that is not used";
  wanted.window = 16;
  wanted.window_from = 1;
  EXPECT_EQ(read(with(small, {{"model_type", "\"qwen2\""},
                              {"num_key_value_heads", "4"},
                              {"sliding_window", "16"},
                              {"use_sliding_window", "true"},
                              {"max_window_layers", "1"},
                              {"layer_types", R"(["full_attention", "sliding_attention"])"}})),
            wanted);
  wanted = plain;
  wanted.family = LlamaFamily::qwen3;
  wanted.norm_heads = true;
  wanted.head_size = 128;
  EXPECT_EQ(read(with(small, {{"model_type", "\"qwen3\""}, {"num_key_value_heads", "4"}})), wanted);
  wanted = plain;
  wanted.query_bias = wanted.output_bias = true;
  wanted.rotary.factor = 4;
  EXPECT_EQ(read(with(small, {{"attention_bias", "true"},
                              {"rope_scaling", R"({"type": "linear", "factor": 4})"}})),
            wanted);
}

TEST_F(LlamaConfigFile, without_heads_of_keys_has_those_of_its_family) {
  for (const auto& [type, heads] : std::vector<std::pair<std::string, std::int64_t>>{{"llama", 64}, {"mistral", 8}, {"qwen2", 32}, {"qwen3", 32}}) {
    const std::string wide = with(small, {{"model_type", io::Json(type).dump()}, {"hidden_size", "128"}, {"num_attention_heads", "64"}});
    EXPECT_EQ(read(wide).kv_heads, heads) << type;
    EXPECT_EQ(read(with(wide, {{"num_key_value_heads", "null"}})).kv_heads, 64) << type;
  }
}

TEST_F(LlamaConfigFile, that_is_written_is_read_back) {
  for (const char* const type : {"llama", "mistral", "qwen2", "qwen3"}) {
    for (
        const char* const scaling :
        {"null", R"({"rope_type": "linear", "factor": 2.5})",
         R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1.5, "high_freq_factor": 3, "original_max_position_embeddings": 20})"}) {
      const bool qwen = std::string(type).starts_with("qwen");
      LlamaConfig config = read(with(small, {{"model_type", io::Json(type).dump()},
                                             {"num_key_value_heads", "2"},
                                             {"sliding_window", std::string(type) == "llama" ? "null" : "5"},
                                             {"use_sliding_window", qwen ? "true" : "null"},
                                             {"max_window_layers", qwen ? "1" : "null"},
                                             {"rope_scaling", scaling},
                                             {"tie_word_embeddings", "true"}}));
      nn::write_llama_config(path(), config);
      EXPECT_EQ(nn::read_llama_config(path()), config) << type;
      const auto either = nn::read_model_config(path());
      EXPECT_EQ(std::get<LlamaConfig>(either), config);
    }
  }
}

TEST_F(LlamaConfigFile, of_a_model_that_no_llama_is_names_the_field) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"model_type", "\"opt\""},
           {"architectures", R"(["LlamaForTokenClassification"])"},
           {"hidden_act", "\"gelu\""},
           {"rope_scaling", R"({"rope_type": "yarn", "factor": 4})"},
           {"rope_scaling", R"({"type": "dynamic", "factor": 4})"},
           {"rope_scaling", R"({"type": "linear"})"},
           {"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1})"},
           {"rope_scaling", "8"},
           {"rope_scaling", R"({"factor": 4})"},
           {"rope_scaling", R"({"rope_type": "linear", "factor": 4, "high_freq_factor": 4})"},
           {"rope_scaling.attention_factor", R"({"rope_type": "linear", "factor": 4, "attention_factor": 2})"},
           {"rope_parameters.full_attention", R"({"full_attention": {"rope_theta": 5}})"},
           {"rope_parameters.rope_thetta", R"({"rope_type": "default", "rope_thetta": 5})"},
           {"layer_types.0", R"(["sliding_attention", "full_attention"])"},
           {"layer_types", R"(["full_attention"])"},
           {"layer_types", R"(["full_attention", "full_attention", "full_attention"])"},
           {"add_cross_attention", "true"},
           {"partial_rotary_factor", "0.5"},
           {"quantization_config", R"({"bits": 4})"},
           {"final_logit_softcapping", "30.0"},
           {"num_local_experts", "8"},
           {"num_hidden_layers", "0"},
           {"num_attention_heads", "\"4\""},
           {"num_key_value_heads", "-1"},
           {"head_dim", "0"},
           {"vocab_size", "97.5"},
           {"hidden_size", "null"},
           {"attention_bias", "1"}}) {
    const std::string member = field.substr(0, field.find('.'));
    EXPECT_THAT(refusal(with(small, {{member, value}})), HasSubstr(field)) << value;
  }
  EXPECT_THAT(refusal(with(small, {{"rope_scaling", R"({"rope_type": "linear", "factor": 2})"},
                                   {"rope_parameters", R"({"rope_type": "default", "rope_theta": 5})"}})),
              HasSubstr("rope_scaling is there beside rope_parameters"));
  EXPECT_THAT(refusal(with(small, {{"model_type", "\"mistral\""},
                                   {"num_key_value_heads", "4"},
                                   {"layer_types", R"(["sliding_attention"])"}})),
              HasSubstr("layer_types is of 1 layers"));
  EXPECT_THAT(refusal(with(small, {{"num_attention_heads", "5"}})), HasSubstr("channels is 32"));
  EXPECT_THAT(refusal(with(small, {{"num_key_value_heads", "3"}})), HasSubstr("kv_heads is 3"));
  EXPECT_THAT(refusal(with(small, {{"head_dim", "7"}})), HasSubstr("head_size is 7"));
  EXPECT_THAT(refusal(with(small, {{"rope_theta", "0"}})), HasSubstr("rotary.theta is 0"));
  EXPECT_THAT(refusal(with(small, {{"rope_scaling", R"({"type": "linear", "factor": 0})"}})),
              HasSubstr("rotary.factor is 0"));
  EXPECT_THAT(refusal(with(small, {{"model_type", "\"qwen2\""},
                                   {"use_sliding_window", "true"},
                                   {"max_window_layers", "1"},
                                   {"layer_types", R"(["sliding_attention", "full_attention"])"}})),
              HasSubstr("layer_types.0 is 'sliding_attention'"));
  EXPECT_THAT(refusal(with(small, {{"model_type", "\"mistral\""}, {"sliding_window", "-4"}})),
              HasSubstr("sliding_window is -4"));
  EXPECT_THAT(refusal("[]"), HasSubstr("object"));
  EXPECT_THROW(nn::read_llama_config(path().string() + "x"), FileError);
}

TEST_F(LlamaConfigFile, of_another_architecture_is_refused_by_its_name) {
  io::write_atomically(path(), R"({"model_type": "opt"})");
  try {
    (void)nn::read_model_config(path());
    ADD_FAILURE() << "it was read";
  } catch (const DecodeError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'opt'"), HasSubstr(path().string()),
                                    HasSubstr("gpt2, llama, mistral, qwen2, qwen3, bloom or gpt_neox")));
  }
  io::write_atomically(path(), "{}");
  EXPECT_THROW((void)nn::read_model_config(path()), DecodeError);
}

TEST_F(LlamaConfigFile, is_not_written_of_what_its_family_has_not) {
  const LlamaConfig plain = read(small);
  const auto refuses = [&](auto change, const char* member) {
    LlamaConfig config = plain;
    change(config);
    try {
      nn::write_llama_config(path(), config);
      ADD_FAILURE() << member;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(member));
    }
  };
  refuses([](LlamaConfig& c) { c.query_bias = true; }, "output_bias");
  refuses([](LlamaConfig& c) { c.norm_heads = true; }, "norm_heads");
  refuses([](LlamaConfig& c) { c.window = 7; }, "window");
  refuses([](LlamaConfig& c) { c.family = LlamaFamily::qwen2; }, "query_bias");
  refuses([](LlamaConfig& c) { c.family = LlamaFamily::mistral, c.mlp_bias = true; }, "mlp_bias");
  refuses([](LlamaConfig& c) { c.family = LlamaFamily::mistral, c.window = 7, c.window_from = 1; },
          "window_from");
  refuses([](LlamaConfig& c) { c.layers = 0; }, "layers");
}

}  // namespace
