// Weights of BLOOM and GPT-NeoX: read by any of their names, and refused by the name of what is wrong.

#include <reef/nn/model_folder.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/host.hpp>

#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace bloom_folders {

using testing::HasSubstr;
using Weights = std::map<std::string, std::vector<float>>;

const std::filesystem::path data = REEF_TEST_DATA;

struct Tensor {
  Shape shape;
  Element element = Element::float32;
  std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Tensor>;

Weights weights_of(const std::filesystem::path& folder) {
  Weights weights;
  const auto model = nn::model_of<device::Host, float>(folder, {.sequence = 4}, 1);
  nn::read_weights<float>(folder, model.dag(), [&](const auto& name, const auto& values) { weights[name] = values; });
  return weights;
}

/// What reading a folder's model gives after its tensors, of fp32 in one file, were changed. Throws DecodeError.
Weights after(const std::string& name, const std::function<void(Tensors&)>& change) {
  const io::SafetensorsFile given(data / name / "model.safetensors");
  Tensors tensors;
  for (const io::StoredTensor& stored : given.tensors()) {
    Tensor& tensor = tensors[stored.name];
    tensor.shape = stored.shape.size() == 1 ? Shape{stored.shape[0]} : Shape{stored.shape[0], stored.shape[1]};
    tensor.bytes.resize(stored.bytes());
    given.read(stored, tensor.bytes);
  }
  change(tensors);
  std::vector<io::NamedView> views;
  for (auto& [own, tensor] : tensors) views.push_back({own, {tensor.bytes.data(), tensor.shape, tensor.element}});
  const TemporaryFolder folder;
  io::write_safetensors(folder / "model.safetensors", views);
  std::filesystem::copy(data / name / "config.json", folder / "config.json");
  return weights_of(folder.path());
}

std::string refusal(const std::string& name, const std::function<void(Tensors&)>& change) {
  try {
    (void)after(name, change);
    return "it was read";
  } catch (const DecodeError& error) {
    return error.what();
  }
}

/// Names with another beginning.
void rename(Tensors& tensors, const std::string& from, const std::string& to) {
  Tensors renamed;
  for (auto& [name, tensor] : tensors) renamed[name.starts_with(from) ? to + name.substr(from.size()) : name] = tensor;
  tensors = renamed;
}

TEST(BloomFile, is_read_with_and_without_the_beginning_of_its_names) {
  const Weights wanted = weights_of(data / "bloom_alibi");
  EXPECT_EQ(wanted.size(), 1 + 2 + 2 * 12 + 2U);
  EXPECT_EQ(after("bloom_alibi", [](Tensors& t) { rename(t, "transformer.", ""); }), wanted);
  EXPECT_EQ(after("bloom_alibi", [](Tensors& t) { rename(t, "", "_orig_mod."); }), wanted);
  EXPECT_EQ(after("bloom_alibi", [](Tensors& t) { t["lm_head.weight"] = t["transformer.word_embeddings.weight"]; }), wanted);
}

TEST(BloomFile, is_refused_by_the_name_of_what_is_wrong) {
  EXPECT_THAT(refusal("bloom_alibi", [](Tensors& t) { t.erase("transformer.word_embeddings_layernorm.bias"); }),
              HasSubstr("as BLOOM: it has no tensor for the model's 'transformer.word_embeddings_layernorm.bias'"));
  EXPECT_THAT(refusal("bloom_alibi", [](Tensors& t) { t["transformer.h.0.self_attention.bias"] = t["transformer.ln_f.bias"]; }),
              HasSubstr("no parameter for its tensor 'transformer.h.0.self_attention.bias'"));
  EXPECT_THAT(refusal("bloom_alibi",
                      [](Tensors& t) {
                        t["lm_head.weight"] = t["transformer.word_embeddings.weight"];
                        t["lm_head.weight"].bytes[0] ^= std::byte{1};
                      }),
              HasSubstr("lm_head.weight is not word_embeddings.weight"));
  EXPECT_THAT(refusal("bloom_alibi",
                      [](Tensors& t) { t["transformer.h.0.self_attention.query_key_value.weight"].shape = {24, 72}; }),
              HasSubstr("transpose it: a BLOOM's projections are (out, in)"));
}

TEST(GptNeoxFile, is_read_with_masks_and_frequencies_of_older_files) {
  const Weights wanted = weights_of(data / "neox_sequential");
  EXPECT_EQ(after("neox_sequential", [](Tensors& t) { rename(t, "gpt_neox.", ""); }), wanted);
  EXPECT_EQ(after("neox_sequential",
                  [](Tensors& t) {
                    t["gpt_neox.layers.1.attention.bias"] = {{1, 1, 4, 4}, Element::int32, std::vector<std::byte>(64)};
                    t["gpt_neox.layers.1.attention.masked_bias"] = {{}, Element::float32, std::vector<std::byte>(4)};
                    t["gpt_neox.layers.1.attention.rotary_emb.inv_freq"] = {{4}, Element::float32, std::vector<std::byte>(16)};
                    t["embed_out.weight"] = t["gpt_neox.embed_in.weight"];
                  }),
            wanted);
}

TEST(GptNeoxFile, is_refused_by_the_name_of_what_is_wrong) {
  EXPECT_THAT(refusal("neox_sequential", [](Tensors& t) { t.erase("gpt_neox.final_layer_norm.bias"); }),
              HasSubstr("as GPT-NeoX: it has no tensor for the model's 'gpt_neox.final_layer_norm.bias'"));
  EXPECT_THAT(refusal("neox_sequential",
                      [](Tensors& t) { t["gpt_neox.layers.0.attention.dense.bias"] = t["gpt_neox.final_layer_norm.bias"]; }),
              HasSubstr("no parameter for its tensor 'gpt_neox.layers.0.attention.dense.bias'"));
  EXPECT_THAT(refusal("neox_sequential",
                      [](Tensors& t) {
                        t["embed_out.weight"] = t["gpt_neox.embed_in.weight"];
                        t["embed_out.weight"].bytes[0] ^= std::byte{1};
                      }),
              HasSubstr("embed_out.weight is not embed_in.weight"));
}

}  // namespace bloom_folders
}  // namespace reef::test
