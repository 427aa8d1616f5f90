// Folders of Hugging Face with a Llama and its like: what is written is read again, and what is malformed is refused by name.

#include <reef/nn/model_folder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/host.hpp>

#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace llama_folders {

using Weights = std::map<std::string, std::vector<float>>;

const std::filesystem::path data = REEF_TEST_DATA;

Weights weights_of(const std::filesystem::path& folder) {
  Weights weights;
  const auto model = nn::model_of<device::Host, float>(folder, {.sequence = 4}, 1);
  nn::read_weights<float>(folder, model.dag(),
                          [&](const auto& name, const auto& values) { weights[name] = values; });
  return weights;
}

TEST(ModelFolder, that_is_written_is_read_back_whatever_the_family) {
  for (const char* const name : {"gpt2_cache", "llama_grouped", "llama_tied", "llama3_scaled", "mistral_window", "qwen2_bias",
                                 "qwen3_heads", "bloom_alibi", "bloom_untied", "neox_parallel", "neox_sequential"}) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    const nn::ModelConfig config = nn::read_model_config(data / name / "config.json");
    const Weights weights = weights_of(data / name);
    nn::write_model_config(folder / "config.json", config);
    const auto model = nn::model_of<device::Host, float>(config, 1);
    nn::write_weights<float>(folder / "model.safetensors", config, model.dag(),
                             [&](const std::string& parameter) { return weights.at(parameter); });
    EXPECT_EQ(weights_of(folder.path()), weights);
    const nn::ModelConfig found = nn::read_model_config(folder / "config.json");
    if (const auto* const llama = std::get_if<nn::LlamaConfig>(&config)) {
      EXPECT_EQ(std::get<nn::LlamaConfig>(found), *llama);
    } else if (const auto* const bloom = std::get_if<nn::BloomConfig>(&config)) {
      EXPECT_EQ(std::get<nn::BloomConfig>(found), *bloom);
    } else if (const auto* const neox = std::get_if<nn::GptNeoxConfig>(&config)) {
      EXPECT_EQ(std::get<nn::GptNeoxConfig>(found), *neox);
    }
    const io::SafetensorsFile original(exists(data / name / "model.safetensors")
                                           ? data / name / "model.safetensors"
                                           : data / name / "model-00001-of-00002.safetensors");
    if (name != std::string("gpt2_cache")) {
      for (const io::StoredTensor& tensor : original.tensors()) {
        EXPECT_TRUE(weights.contains(tensor.name)) << "names are Hugging Face's: " << tensor.name;
      }
    }
  }
}

TEST(ModelFolder, refuses_a_sequence_beyond_the_context) {
  EXPECT_THROW((nn::model_of<device::Host, float>(data / "llama_tied", {.sequence = 65}, 1)),
               OptionError);
}

TEST(ModelFolder, whose_config_json_is_of_another_size_is_refused_before_a_graph_is_built) {
  const auto refusal = [](const std::filesystem::path& folder, const auto& change) -> std::string {
    nn::ModelConfig config = nn::read_model_config(folder / "config.json");
    std::visit(change, config);
    try {
      nn::require_weights(folder, config);
      return "it fits";
    } catch (const DecodeError& error) {
      return error.what();
    }
  };
  for (const char* const name : {"gpt2_cache", "llama_grouped", "llama_tied", "qwen2_bias", "qwen3_heads", "mistral_window",
                                 "bloom_alibi", "bloom_untied", "neox_parallel", "neox_sequential"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(refusal(data / name, [](auto&) {}), "it fits");
    EXPECT_THAT(refusal(data / name, [](auto& own) { own.layers = 10'000; }), testing::HasSubstr("10000"));
    EXPECT_THAT(refusal(data / name, [](auto& own) { own.layers = 1; }), testing::HasSubstr(" 1"));
    EXPECT_THAT(refusal(data / name, [](auto& own) { own.vocabulary += 1; }), testing::HasSubstr("  fix: "));
    EXPECT_THAT(refusal(data / name, [](auto& own) { own.channels *= 2; }), testing::HasSubstr("  fix: "));
  }
}

TEST(ModelFolder, builds_no_graph_of_layers_that_its_weights_do_not_have) {
  const TemporaryFolder folder;
  std::filesystem::copy(data / "llama_tied", folder.path(), std::filesystem::copy_options::recursive);
  io::Json config = io::read_json(folder / "config.json");
  config["num_hidden_layers"] = 10'000;
  io::write_atomically(folder / "config.json", config.dump());
  EXPECT_THROW((nn::model_of<device::Host, float>(folder.path(), {.sequence = 4}, 1)), DecodeError);

  config["num_hidden_layers"] = 3;
  io::write_atomically(folder / "config.json", config.dump());
  std::filesystem::remove(folder / "model.safetensors");
  const auto drawn = nn::model_of<device::Host, float>(folder.path(), {.sequence = 4}, 1);
  EXPECT_TRUE(std::ranges::any_of(drawn.dag().parameters, [](const graph::Parameter& parameter) {
    return parameter.name.find(".2.") != std::string::npos;
  })) << "a config.json alone is a model to train from scratch";
}

TEST(ModelFolder, gives_all_parameters_or_says_how_many_elements_lack) {
  const auto model = nn::model_of<device::Host, float>(data / "llama_tied", {.sequence = 4}, 1);
  const TemporaryFolder folder;
  EXPECT_THROW(nn::write_llama<float>(folder / "model.safetensors", model.dag(),
                                      [](const std::string&) { return std::vector<float>(3); }),
               OptionError);
}

/// The tensors of llama_tied, changed and written again.
class ChangedLlama : public testing::Test {
protected:
  struct Tensor {
    Shape shape;
    Element element = Element::float32;
    std::vector<std::byte> bytes;
  };
  using Tensors = std::map<std::string, Tensor>;

  /// What the reader says of the file after the change; "" if it reads it.
  std::string refusal(const std::function<void(Tensors&)>& change) {
    const io::SafetensorsFile given(data / "llama_tied" / "model.safetensors");
    Tensors tensors;
    for (const io::StoredTensor& stored : given.tensors()) {
      Tensor& tensor = tensors[stored.name];
      tensor.shape = stored.shape.size() == 1 ? Shape{stored.shape[0]}
                                              : Shape{stored.shape[0], stored.shape[1]};
      tensor.bytes.resize(stored.bytes());
      given.read(stored, tensor.bytes);
    }
    change(tensors);
    std::vector<io::NamedView> views;
    for (auto& [name, tensor] : tensors)
      views.push_back({name, {tensor.bytes.data(), tensor.shape, tensor.element}});
    const auto path = folder_ / "model.safetensors";
    io::write_safetensors(path, views);
    int calls = 0;
    try {
      nn::LlamaFile(folder_.path()).read<float>(model_.dag(), [&](const auto&, const auto&) {
        ++calls;
      });
      return "";
    } catch (const DecodeError& error) {
      EXPECT_EQ(calls, 0) << "parameters were set before the file was checked";
      EXPECT_THAT(error.what(),
                  testing::AllOf(testing::HasSubstr(path.string()), testing::HasSubstr("fix: ")));
      return error.what();
    }
  }

private:
  TemporaryFolder folder_;
  graph::Graph<device::Host, float> model_ =
      nn::model_of<device::Host, float>(data / "llama_tied", {.sequence = 4}, 1);
};

TEST_F(ChangedLlama, is_read_where_nothing_that_matters_changed) {
  EXPECT_EQ(refusal([](Tensors&) {}), "");
  EXPECT_EQ(refusal([](Tensors& t) { t["lm_head.weight"] = t["model.embed_tokens.weight"]; }), "")
      << "a tied head that is there";
  EXPECT_EQ(refusal([](Tensors& t) {
              t["model.layers.1.self_attn.rotary_emb.inv_freq"] = {
                  {4}, Element::float32, std::vector<std::byte>(16)};
            }),
            "");
  EXPECT_EQ(refusal([](Tensors& t) {
              Tensors wrapped;
              for (auto& [name, tensor] : t) wrapped["module._orig_mod." + name] = tensor;
              t = wrapped;
            }),
            "");
}

TEST_F(ChangedLlama, is_refused_by_the_name_of_what_is_wrong) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal([](Tensors& t) { t.erase("model.norm.weight"); }),
              HasSubstr("no tensor for the model's 'model.norm.weight'"));
  EXPECT_THAT(
      refusal([](Tensors& t) { t["model.layers.2.mlp.up_proj.weight"] = t["model.norm.weight"]; }),
      HasSubstr("no parameter for its tensor 'model.layers.2.mlp.up_proj.weight'"));
  EXPECT_THAT(refusal([](Tensors& t) {
                t["model.layers.0.self_attn.q_proj.bias"] = t["model.norm.weight"];
              }),
              HasSubstr("q_proj.bias"));
  EXPECT_THAT(refusal([](Tensors& t) { t["norm.weight"] = t["model.norm.weight"]; }),
              HasSubstr("are both a model's 'norm.weight'"));
  EXPECT_THAT(refusal([](Tensors& t) {
                t["model.layers.0.mlp.up_proj.weight"].shape = {32, 88};
              }),
              HasSubstr("transpose it"));
  EXPECT_THAT(refusal([](Tensors& t) {
                t["model.layers.0.mlp.up_proj.weight"].shape = {44, 64};
              }),
              HasSubstr("is F32 (44, 64), the model's is fp32 (88, 32)"));
  EXPECT_THAT(refusal([](Tensors& t) { t["model.norm.weight"].element = Element::int32; }),
              HasSubstr("a dtype that is not read"));
  EXPECT_THAT(refusal([](Tensors& t) {
                const float nan = std::numeric_limits<float>::quiet_NaN();
                std::memcpy(t["model.norm.weight"].bytes.data() + 20, &nan, sizeof nan);
              }),
              HasSubstr("element 5 of tensor 'model.norm.weight'"));
  EXPECT_THAT(refusal([](Tensors& t) {
                t["lm_head.weight"] = t["model.embed_tokens.weight"];
                t["lm_head.weight"].bytes[0] ^= std::byte{1};
              }),
              HasSubstr("lm_head.weight is not embed_tokens.weight"));
}

TEST(ModelFolder, without_a_head_of_its_own_is_refused_where_the_model_has_one) {
  const TemporaryFolder folder;
  std::filesystem::copy(
      data / "llama_tied", folder.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const auto config = nn::read_model_config(folder / "config.json");
  nn::LlamaConfig untied = std::get<nn::LlamaConfig>(config);
  untied.tied = false;
  std::filesystem::remove(folder / "config.json");
  nn::write_model_config(folder / "config.json", untied);
  try {
    (void)weights_of(folder.path());
    ADD_FAILURE() << "it was read";
  } catch (const DecodeError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no tensor for the model's 'lm_head.weight'.\n  "
                                                 "fix: give its config.json tie_word_embeddings"));
  }
}

}  // namespace llama_folders
}  // namespace reef::test
