// Folders of Hugging Face's models for sequence classification: what is written is read again, and what contradicts
// itself is refused by name.

#include <reef/nn/class_labels.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/device/host.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_folder.hpp>

#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace class_folders {

using testing::AllOf;
using testing::HasSubstr;
using Weights = std::map<std::string, std::vector<float>>;
using Model = graph::Graph<device::Host, float>;

const std::filesystem::path data = REEF_TEST_DATA;

Weights read_all(const std::filesystem::path& folder) {
  Weights weights;
  const auto model = nn::model_of<device::Host, float>(folder, {.sequence = 4}, 1);
  nn::read_weights<float>(folder, model.dag(), [&](const auto& name, const auto& values) { weights[name] = values; });
  return weights;
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

std::vector<float> drawn(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(random_bits({3, 0, 0, 0}, i) % 4096) / 4096 - 0.5F;
  return values;
}

/// A folder with a classifier of the layers of a language model of tests/data.
class Classifier {
public:
  Classifier(const char* base, nn::ClassLabels labels) : labels_(std::move(labels)) {
    config_ = nn::read_model_config(data / base / "config.json");
    const Model language = nn::model_of<device::Host, float>(config_, 1);
    nn::read_weights<float>(data / base, config_, language.dag(),
                            [&](const auto& name, const auto& values) { weights_[name] = values; });
    const Model model = nn::with_class_head(language, {.classes = labels_.classes()});
    const graph::Dag& dag = model.dag();
    weights_["score.weight"] = drawn(dag.parameter_at(dag.parameter("score.weight")).spec.shape.size());
    nn::write_model_config(folder_ / "config.json", config_, labels_);
    nn::write_weights<float>(folder_ / "model.safetensors", config_, dag,
                             [&](const std::string& name) { return weights_.at(name); });
    std::erase_if(weights_, [&](const auto& weight) {  // of a head of the language
      return std::ranges::none_of(dag.parameters, [&](const auto& parameter) { return parameter.name == weight.first; });
    });
  }

  [[nodiscard]] std::filesystem::path path() const { return folder_.path(); }
  [[nodiscard]] const nn::ModelConfig& config() const { return config_; }
  [[nodiscard]] const Weights& weights() const { return weights_; }

  /// Sets fields of config.json, each a name and JSON; empty JSON removes a field.
  void change(const std::vector<std::pair<std::string, std::string>>& fields) const {
    io::Json json = io::read_json(folder_ / "config.json");
    for (const auto& [name, value] : fields) {
      json.erase(name);
      if (!value.empty()) json[name] = io::Json::parse(value);
    }
    io::write_atomically(folder_ / "config.json", json.dump());
  }

private:
  TemporaryFolder folder_;
  nn::ClassLabels labels_;
  nn::ModelConfig config_;
  Weights weights_;
};

TEST(ClassFolder, that_is_written_is_read_back_whatever_the_family) {
  const std::vector<std::pair<const char*, const char*>> families{
      {"gpt2_cache", "GPT2ForSequenceClassification"},      {"llama_grouped", "LlamaForSequenceClassification"},
      {"llama_tied", "LlamaForSequenceClassification"},     {"mistral_window", "MistralForSequenceClassification"},
      {"qwen2_bias", "Qwen2ForSequenceClassification"},     {"qwen3_heads", "Qwen3ForSequenceClassification"},
      {"bloom_alibi", "BloomForSequenceClassification"},    {"bloom_untied", "BloomForSequenceClassification"},
      {"neox_parallel", "GPTNeoXForSequenceClassification"}};
  const nn::ClassLabels labels{{"good", "bad", "neither"}, 7};
  for (const auto& [base, architecture] : families) {
    SCOPED_TRACE(base);
    const Classifier written(base, labels);
    EXPECT_EQ(read_all(written.path()), written.weights());
    EXPECT_EQ(nn::read_class_labels(written.path() / "config.json"), labels);
    EXPECT_EQ(nn::read_model_config(written.path() / "config.json"), written.config());
    const io::Json json = io::read_json(written.path() / "config.json");
    EXPECT_EQ(json.at("architectures"), io::Json::array({architecture}));
    EXPECT_EQ(json.at("id2label"), io::Json::parse(R"({"0": "good", "1": "bad", "2": "neither"})"));
    EXPECT_EQ(json.at("label2id"), io::Json::parse(R"({"good": 0, "bad": 1, "neither": 2})"));
    EXPECT_EQ(json.at("pad_token_id"), 7);
    EXPECT_EQ(json.at("problem_type"), "single_label_classification");
    const io::SafetensorsFile file(written.path() / "model.safetensors");
    ASSERT_NE(file.find("score.weight"), nullptr);
    EXPECT_EQ(file.find("score.weight")->shape.front(), 3);
    for (const char* const head : {"lm_head.weight", "embed_out.weight"}) EXPECT_EQ(file.find(head), nullptr);
  }
}

TEST(ClassFolder, says_its_classes_as_hugging_face_leaves_them_out) {
  const Classifier folder("llama_tied", nn::ClassLabels::numbered(2));
  const auto labels = [&] { return nn::read_class_labels(folder.path() / "config.json").value(); };
  EXPECT_EQ(labels(), (nn::ClassLabels{{"LABEL_0", "LABEL_1"}, std::nullopt}));
  folder.change({{"id2label", ""}, {"label2id", ""}, {"problem_type", "null"}, {"pad_token_id", ""}});
  EXPECT_EQ(labels(), nn::ClassLabels::numbered(2));
  EXPECT_EQ(read_all(folder.path()), folder.weights());
  folder.change({{"num_labels", "2"}});
  EXPECT_EQ(labels(), nn::ClassLabels::numbered(2));
  folder.change({{"id2label", R"({"1": "yes", "0": "no"})"}});
  EXPECT_EQ(labels().names, (std::vector<std::string>{"no", "yes"}));
  EXPECT_FALSE(nn::read_class_labels(data / "llama_tied" / "config.json"));
  EXPECT_FALSE(nn::read_class_labels(data / "gpt2_cache" / "config.json"));
}

TEST(ClassFolder, reads_a_class_behind_the_last_token_that_pads_nothing) {
  nn::ClassLabels labels = nn::ClassLabels::numbered(2);
  const std::vector<std::int32_t> text{4, 7, 5, 7, 7};
  EXPECT_EQ(labels.length_of(text), 5U);
  labels.pad_token = 7;
  EXPECT_EQ(labels.length_of(text), 3U);
  labels.pad_token = -1;
  EXPECT_EQ(labels.length_of(text), 5U);
  labels.pad_token = 7;
  EXPECT_EQ(labels.length_of(std::vector<std::int32_t>{7, 7, 7}), 1U);
  EXPECT_EQ(labels.length_of({}), 0U);
}

TEST(ClassFolder, that_contradicts_itself_is_refused_by_the_name_of_the_field) {
  const Classifier folder("llama_tied", nn::ClassLabels::numbered(3));
  const auto refused = [&](const std::vector<std::pair<std::string, std::string>>& fields) {
    const io::Json before = io::read_json(folder.path() / "config.json");
    folder.change(fields);
    std::string why = refusal_of([&] { (void)read_all(folder.path()); });
    io::write_atomically(folder.path() / "config.json", before.dump());
    return why;
  };
  EXPECT_THAT(refused({{"num_labels", "4"}}),
              AllOf(HasSubstr("num_labels is 4, and id2label has 3"), HasSubstr((folder.path() / "config.json").string())));
  EXPECT_THAT(refused({{"num_labels", "0"}}), HasSubstr("num_labels is 0"));
  EXPECT_THAT(refused({{"id2label", ""}, {"num_labels", "1000001"}}), HasSubstr("num_labels is 1000001"));
  EXPECT_THAT(refused({{"id2label", R"({"0": "a", "2": "b", "1": 3})"}}), HasSubstr("id2label is no name for class 1"));
  EXPECT_THAT(refused({{"id2label", R"({"0": "a", "3": "b"})"}}), HasSubstr("id2label is without class 1, of 2"));
  EXPECT_THAT(refused({{"id2label", "{}"}}), HasSubstr("id2label is empty"));
  EXPECT_THAT(refused({{"id2label", R"(["a", "b", "c"])"}}), HasSubstr("id2label is array"));
  EXPECT_THAT(refused({{"label2id", R"({"LABEL_0": 1})"}}), HasSubstr("label2id is 1 for 'LABEL_0', and id2label another"));
  EXPECT_THAT(refused({{"label2id", R"({"LABEL_0": -1})"}}), HasSubstr("label2id is -1 for 'LABEL_0'"));
  EXPECT_THAT(refused({{"label2id", R"({"LABEL_0": 18446744073709551615})"}}), HasSubstr("label2id is 18446744073709551615"));
  EXPECT_THAT(refused({{"label2id", "[0]"}}), HasSubstr("label2id is array"));
  EXPECT_THAT(refused({{"problem_type", "\"multi_label_classification\""}}),
              HasSubstr("problem_type is 'multi_label_classification'"));
  EXPECT_THAT(refused({{"id2label", R"({"0": "a"})"}, {"label2id", ""}, {"problem_type", ""}}),
              HasSubstr("problem_type is 'regression'"));
  EXPECT_THAT(refused({{"pad_token_id", "\"x\""}}), HasSubstr("pad_token_id"));
  // Another number of classes than the head has: by name, and where nobody says it the usual one.
  EXPECT_THAT(refused({{"id2label", R"({"0": "a", "1": "b"})"}, {"label2id", ""}}),
              AllOf(HasSubstr("'score.weight' is F32 (3, "), HasSubstr("(2, "), HasSubstr("an id2label in config.json")));
  EXPECT_THAT(refused({{"id2label", ""}, {"label2id", ""}}), HasSubstr("'score.weight' is F32 (3, "));
  EXPECT_THAT(refused({{"architectures", R"(["LlamaForCausalLM"])"}}), HasSubstr("no parameter for its tensor 'score.weight'"));
  EXPECT_THAT(refused({{"architectures", R"(["GPT2ForSequenceClassification"])"}}), HasSubstr("architectures is"));
  EXPECT_EQ(refused({}), "none");
}

TEST(ClassFolder, without_a_head_or_with_one_of_another_shape_is_refused_by_its_name) {
  for (const char* const base : {"gpt2_cache", "llama_tied", "bloom_alibi", "neox_parallel"}) {
    SCOPED_TRACE(base);
    const nn::ModelConfig config = nn::read_model_config(data / base / "config.json");
    const Model model = nn::with_class_head(nn::model_of<device::Host, float>(config, 1), {.classes = 3});
    EXPECT_THAT(refusal_of([&] { nn::read_weights<float>(data / base, config, model.dag(), [](const auto&, const auto&) {}); }),
                AllOf(HasSubstr("no tensor for the model's 'score.weight'"), HasSubstr("a model for sequence classification")));
    const Classifier other(base, nn::ClassLabels::numbered(4));
    EXPECT_THAT(refusal_of([&] { nn::read_weights<float>(other.path(), config, model.dag(), [](const auto&, const auto&) {}); }),
                AllOf(HasSubstr("'score.weight' is F32 (4, "), HasSubstr("an id2label in config.json")));
  }
}

TEST(ClassFolder, is_not_written_without_classes) {
  const TemporaryFolder folder;
  const nn::ModelConfig config = nn::read_model_config(data / "llama_tied" / "config.json");
  EXPECT_THAT(refusal_of([&] { nn::write_model_config(folder / "config.json", config, nn::ClassLabels{}); }),
              HasSubstr("classes is 0"));
  EXPECT_FALSE(exists(folder / "config.json"));
}

}  // namespace class_folders
}  // namespace reef::test
