// What reef-train does with models of Hugging Face: a config.json says what --init is, and --export writes it again.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors.hpp>

#include "../data/random_strings.hpp"
#include "reef_train_job.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class ReefTrainModels : public ReefTrainFolder {
protected:
  ReefTrainModels() { write("text.txt", story(400)); }

  /// The config.json of a small model with a token for each byte, or so many.
  void write_config(const std::string& type, const std::string& more = "",
                    int vocabulary = 256) const {
    fs::create_directories(path(type));
    const std::string own = type == "bloom" ? R"("seq_length": 8)"  // shorter than --context, which a bloom may exceed
                            : type == "gpt_neox"
                                ? R"("intermediate_size": 24, "max_position_embeddings": 32, "rotary_pct": 0.5)"
                                : R"("intermediate_size": 24, "max_position_embeddings": 32, "num_key_value_heads": 2,
      "head_dim": 4)";
    write(type + "/config.json",
          concat(R"({"model_type": ")", type,
                 R"(", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, )", own,
                 R"(, "vocab_size": )", vocabulary, more, "}"));
  }
  [[nodiscard]] Ending train(int ranks, const std::string& options) const {
    return run_ranks(REEF_TEST_MPIEXEC, ranks,
                     concat(REEF_TRAIN " --data ", path("text.txt"),
                            " --context 16 --batch 4 --lr 0.01 --prompt-bytes 8 ", options));
  }
  /// A folder that --export makes of another.
  [[nodiscard]] std::string trained(const std::string& from, const std::string& to, int ranks,
                                    const std::string& options) const {
    fs::create_directories(path(to));
    const Ending ending = train(ranks, concat("--init ", path(from), " --export ", path(to),
                                              "/model.safetensors ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    return ending.errors;
  }
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> weights(
      const std::string& folder) const {
    const io::SafetensorsFile file(path(folder) + "/model.safetensors");
    std::map<std::string, std::vector<std::byte>> result;
    for (const io::StoredTensor& tensor : file.tensors()) {
      result[tensor.name].resize(static_cast<std::size_t>(tensor.bytes()));
      file.read(tensor, result[tensor.name]);
    }
    return result;
  }
  [[nodiscard]] io::Json config(const std::string& folder) const {
    return io::read_json(path(folder) + "/config.json");
  }
};

TEST_F(ReefTrainModels, trains_each_family_from_its_config_json_and_exports_what_it_reads_again) {
  for (const char* const type : {"llama", "mistral", "qwen2", "qwen3"}) {
    SCOPED_TRACE(type);
    write_config(type, std::string(type) == "llama" ? "" : R"(, "sliding_window": 5)");
    const std::string first = std::string(type) + "1", again = std::string(type) + "2";
    EXPECT_THAT(trained(std::string(type) + "/config.json", first, 1, "--steps 3"),
                HasSubstr("drawn by --seed"));
    EXPECT_THAT(trained(first, again, 1, "--steps 1 --lr 0"),
                HasSubstr("weights: from " + path(first)));
    EXPECT_EQ(weights(again), weights(first));
    EXPECT_EQ(config(again), config(first));
    EXPECT_EQ(config(first).at("model_type"), type);
    EXPECT_TRUE(weights(first).contains("model.layers.1.self_attn.k_proj.weight"));
    EXPECT_TRUE(weights(first).contains("lm_head.weight"));
  }
}

TEST_F(ReefTrainModels, trains_bloom_and_neox_by_any_stages_and_exports_what_it_reads_again) {
  for (const char* const type : {"bloom", "gpt_neox"}) {
    SCOPED_TRACE(type);
    write_config(type);
    const std::string from = concat(type, "1");
    EXPECT_THAT(trained(std::string(type) + "/config.json", from, 1, "--steps 2"), HasSubstr("drawn by --seed"));
    EXPECT_THAT(trained(from, concat(type, "2"), 1, "--steps 1 --lr 0"), HasSubstr("weights: from " + path(from)));
    EXPECT_EQ(weights(concat(type, "2")), weights(from));
    EXPECT_EQ(config(concat(type, "2")), config(from));
    EXPECT_EQ(config(from).at("model_type"), type);
    (void)trained(from, concat(type, "alone"), 1, "--steps 3 --micro-batches 2 --recipe zero1");
    (void)trained(from, concat(type, "stages"), 2, "--steps 3 --micro-batches 2 --recipe dtfm --stages 2");
    EXPECT_NE(weights(concat(type, "alone")), weights(from));
    EXPECT_EQ(weights(concat(type, "stages")), weights(concat(type, "alone")));
  }
  EXPECT_TRUE(weights("bloom1").contains("transformer.h.1.self_attention.query_key_value.weight"));
  EXPECT_FALSE(weights("bloom1").contains("lm_head.weight")) << "it is tied";
  EXPECT_TRUE(weights("gpt_neox1").contains("gpt_neox.layers.1.attention.query_key_value.weight"));
  EXPECT_TRUE(weights("gpt_neox1").contains("embed_out.weight"));
}

TEST_F(ReefTrainModels, stages_and_swapping_train_it_to_the_bits_of_one_process) {
  write_config("llama", R"(, "tie_word_embeddings": true)");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  (void)trained("from", "alone", 1, "--steps 3 --micro-batches 2 --recipe zero1");
  (void)trained("from", "stages", 3, "--steps 3 --micro-batches 2 --recipe dtfm --stages 3");
  (void)trained("from", "swapped", 1, "--steps 3 --micro-batches 2 --recipe atom");
  EXPECT_NE(weights("alone"), weights("from"));
  EXPECT_EQ(weights("stages"), weights("alone"));
  EXPECT_EQ(weights("swapped"), weights("alone"));
  EXPECT_FALSE(weights("stages").contains("lm_head.weight"));
}

TEST_F(ReefTrainModels, prompts_with_completions_are_learnt_whatever_the_ranks) {
  write_config("llama");
  std::string pairs;
  for (int i = 0; i < 30; ++i) pairs += concat("{\"prompt\": \"", i % 5, "+1=\", \"completion\": \"", i % 5 + 1, "\"}\n");
  write("pairs.jsonl", pairs);
  const auto losses = [&](int ranks, const std::string& options) {
    const Ending ending = run_ranks(REEF_TEST_MPIEXEC, ranks,
                                    concat(REEF_TRAIN " --data ", path("pairs.jsonl"), " --init ", path("llama"),
                                           "/config.json --context 16 --batch 4 --lr 0.02 --document-end 10 --prompt '3+1=' "
                                           "--prompt-bytes 2 --metrics ", path("pairs.metrics"), " ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("27 prompts with completions to train on, 3 held out"));
    std::vector<double> of_steps;
    for (const io::Json& line : lines("pairs.metrics")) {
      if (line.contains("loss")) of_steps.push_back(line.at("loss").get<double>());
    }
    return of_steps;
  };
  const std::vector<double> prompted = losses(1, "--steps 60 --micro-batches 2 --recipe zero1 --prompts 8");
  EXPECT_LT(prompted.back(), prompted.front());
  EXPECT_EQ(losses(2, "--steps 60 --micro-batches 2 --recipe dtfm --stages 2 --prompts 8"), prompted);
  const std::vector<double> alone = losses(1, "--steps 60 --micro-batches 2 --recipe zero1");
  ASSERT_EQ(alone.size(), 60U);
  EXPECT_LT(alone.back(), alone.front() / 2);
  EXPECT_EQ(losses(2, "--steps 60 --micro-batches 2 --recipe dtfm --stages 2"), alone);
}

TEST_F(ReefTrainModels, packed_samples_are_learnt_as_each_in_a_row_of_its_own_whatever_the_ranks) {
  write_config("llama");
  std::string pairs;
  for (int i = 0; i < 40; ++i) pairs += concat("{\"prompt\": \"", i % 5, "+1=\", \"completion\": \"", i % 5 + 1, "\"}\n");
  write("pairs.jsonl", pairs);
  const auto losses = [&](int ranks, const std::string& options) {
    const Ending ending = run_ranks(REEF_TEST_MPIEXEC, ranks,
                                    concat(REEF_TRAIN " --data ", path("pairs.jsonl"), " --init ", path("llama"),
                                           "/config.json --lr 0.02 --document-end 10 --prompt '3+1=' --prompt-bytes 2 --metrics ",
                                           path("pairs.metrics"), " ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    if (options.find("--pack") != std::string::npos) {
      EXPECT_THAT(ending.errors, HasSubstr("packed: 36 samples to train on in 12 rows"));  // each takes 5 positions
    }
    std::vector<double> of_steps;
    for (const io::Json& line : lines("pairs.metrics")) {
      if (line.contains("loss")) of_steps.push_back(line.at("loss").get<double>());
    }
    EXPECT_FALSE(of_steps.empty()) << ending;
    return of_steps;
  };
  // All samples in each step, so that it does not matter which are together.
  const std::vector<double> packed = losses(1, "--context 15 --batch 6 --steps 30 --micro-batches 2 --recipe zero1 --pack");
  const std::vector<double> alone = losses(1, "--context 15 --batch 18 --steps 30 --micro-batches 2 --recipe zero1");
  ASSERT_EQ(packed.size(), alone.size());
  for (std::size_t i = 0; i < packed.size(); ++i) EXPECT_NEAR(packed[i], alone[i], 2e-3 * alone.front()) << i;
  EXPECT_NEAR(packed[0], alone[0], 1e-5 * alone[0]);
  EXPECT_LT(packed.back(), packed.front() / 2);
  EXPECT_EQ(losses(2, "--context 15 --batch 6 --steps 30 --micro-batches 2 --recipe dtfm --stages 2 --pack"), packed);
  const auto refused = [&](const std::string& options, const std::string& why) {
    const Ending ending = run_ranks(REEF_TEST_MPIEXEC, 1, concat(REEF_TRAIN " --init ", path("llama"), "/config.json ", options));
    EXPECT_EQ(ending.status, 2) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(why));
  };
  refused("--pack", "--pack: is of samples that a .jsonl of --data has");
  refused("--pack --prompts 2 --data " + path("pairs.jsonl"), "--pack: is beside --prompts");
  refused("--deep-prompts", "--deep-prompts: is of --prompts P");
}

TEST_F(ReefTrainModels, conversations_are_learnt_in_the_template_of_the_tokenizers_folder_whatever_the_ranks) {
  write_config("llama", "", 1263);
  io::Json longer = config("llama");
  longer["max_position_embeddings"] = 96;
  write("llama/config.json", longer.dump());
  for (const char* const name : {"vocab.json", "merges.txt"})
    fs::copy_file(concat(REEF_TEST_DATA, "/small_", name), path(concat("llama/", name)));
  write("llama/added_tokens.json", R"({"<|im_start|>": 1257, "<|im_end|>": 1258, "<|begin_of_text|>": 1259,
      "<|start_header_id|>": 1260, "<|end_header_id|>": 1261, "<|eot_id|>": 1262})");
  const std::string jinja =
      "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}<|im_end|>\\n{% endfor %}";
  write("llama/tokenizer_config.json", "{\"chat_template\": \"" + jinja + "\"}");
  const auto turn = [](const char* role, const std::string& content) {
    return concat("{\"role\": \"", role, "\", \"content\": \"", content, "\"}");
  };
  std::string talks;
  for (int i = 0; i < 30; ++i) {
    talks += concat("{\"messages\": [", turn("user", concat(i % 5, "<|im_end|>")), ", ",
                    turn("assistant", concat(i % 5 + 1)), ", ", turn("user", "again"), ", ",
                    turn("assistant", concat(i % 5 + 2)), "]}\n");
  }
  write("talks.jsonl", talks);
  const auto train_on = [&](const std::string& data, int ranks, const std::string& options) {
    return run_ranks(
        REEF_TEST_MPIEXEC, ranks,
        concat(REEF_TRAIN " --data ", path(data), " --init ", path("llama"),
               "/config.json --tokenizer gpt2:", path("llama"), " --context 96 --lr 0.02 --prompt-bytes 0 --metrics ",
               path("talks.metrics"), " ", options));
  };
  const auto losses = [&](int ranks, const std::string& options) {
    const Ending ending = train_on("talks.jsonl", ranks, options);
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("27 conversations to train on, 3 held out"));
    const bool named = options.find("--template") != std::string::npos;
    EXPECT_EQ(ending.errors.find("the template is chatml") == std::string::npos, named) << ending;
    std::vector<double> of_steps;
    for (const io::Json& line : lines("talks.metrics")) {
      if (line.contains("loss")) of_steps.push_back(line.at("loss").get<double>());
    }
    EXPECT_FALSE(of_steps.empty()) << ending;
    return of_steps;
  };
  const std::string steps = "--steps 40 --batch 9 --micro-batches 3 --recipe ";
  const std::vector<double> alone = losses(1, steps + "zero1");
  EXPECT_LT(alone.back(), alone.front() / 3);
  EXPECT_EQ(losses(1, steps + "zero1 --template chatml"), alone);
  EXPECT_EQ(losses(2, steps + "dtfm --stages 2"), alone);
  EXPECT_NE(losses(1, steps + "zero1 --template llama3")[0], alone[0]);
  EXPECT_LT(losses(1, steps + "zero1 --template plain --document-end '<|endoftext|>'").back(), alone.front() / 3);
  const std::vector<double> packed = losses(1, steps + "zero1 --pack");
  EXPECT_LT(packed.back(), packed.front() / 3);

  const auto refused = [&](const std::string& data, const std::string& options, const std::string& why) {
    const Ending ending = train_on(data, 1, options);
    EXPECT_NE(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(why));
  };
  refused("talks.jsonl", "--template vicuna", "vicuna");
  refused("talks.jsonl", "--document-end '<|endoftext|>'", "whose turns end with <|im_end|>");
  refused("talks.jsonl", "--tokenizer bytes", "conversations need --template");
  refused("talks.jsonl", "--tokenizer bytes --template chatml", "the tokenizer has no token '<|im_start|>'");
  refused("text.txt", "--template chatml", "--template: is of samples that a .jsonl of --data has");
  write("pairs.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  refused("pairs.jsonl", "--template chatml", "--template is of conversations");
  refused("pairs.jsonl", "--data " + path("talks.jsonl"), "1 of 2 files are of conversations");
  write("bad.jsonl", talks + "{\"messages\": [" + turn("robot", "hi") + "]}\n");
  refused("bad.jsonl", "", "bad.jsonl, line 31, message 1: the role is 'robot'");
  write("llama/tokenizer_config.json", "{\"chat_template\": \"[INST] {{ content }} [/INST]\"}");
  refused("talks.jsonl", "", "chat_template is of no template that is known here");
  write("llama/tokenizer_config.json", "{}");
  refused("talks.jsonl", "", "has no chat_template");
}

TEST_F(ReefTrainModels, texts_are_told_apart_by_a_class_head_that_goes_on_from_its_file) {
  write_config("llama");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  std::string texts;
  for (int i = 0; i < 40; ++i) texts += concat("{\"text\": \"", i % 2 == 0 ? "good" : "bad", i % 7, "\", \"label\": ", i % 2, "}\n");
  write("texts.jsonl", texts);
  double accuracy = -1;
  const auto losses = [&](int ranks, const std::string& options) {
    const Ending ending = run_ranks(REEF_TEST_MPIEXEC, ranks,
                                    concat(REEF_TRAIN " --data ", path("texts.jsonl"), " --init ", path("from"),
                                           " --context 12 --lr 0.02 --metrics ", path("texts.metrics"), " ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("36 texts of 2 classes to train on, 4 held out"));
    EXPECT_THAT(ending.errors, HasSubstr("held-out accuracy: "));
    accuracy = lines("texts.metrics").back().at("validation_accuracy").get<double>();
    std::vector<double> of_steps;
    for (const io::Json& line : lines("texts.metrics")) {
      if (line.contains("loss")) of_steps.push_back(line.at("loss").get<double>());
    }
    EXPECT_FALSE(of_steps.empty()) << ending;
    return of_steps;
  };
  const std::string head = "--classes 2 --batch 4 --steps 60 --micro-batches 2 --lora 2 --export-adapter ";
  const std::vector<double> alone = losses(1, head + path("mine") + " --recipe zero1");
  EXPECT_LT(alone.back(), alone.front() / 4);
  EXPECT_EQ(accuracy, 1);
  EXPECT_EQ(losses(2, head + path("stages") + " --recipe dtfm --stages 2"), alone);
  EXPECT_EQ(accuracy, 1);
  const auto written = tensors("mine/adapter_model.safetensors");
  EXPECT_EQ(tensors("stages/adapter_model.safetensors"), written);
  const io::SafetensorsFile file(path("mine") + "/adapter_model.safetensors");
  EXPECT_NE(file.find("base_model.model.score.weight"), nullptr);
  EXPECT_EQ(io::read_json(path("mine") + "/adapter_config.json").at("task_type"), "SEQ_CLS");
  const std::vector<double> again =
      losses(1, "--classes 2 --batch 4 --steps 1 --lr 0 --init-adapter " + path("mine") + " --export-adapter " + path("again"));
  EXPECT_LT(again[0], alone.front() / 4);
  EXPECT_EQ(accuracy, 1);
  // The whole model is a folder too, over stages to the bits of one process.
  const std::string whole = "--classes 2 --batch 4 --steps 10 --micro-batches 2 --export ";
  for (const char* const folder : {"whole", "spread"}) std::filesystem::create_directory(path(folder));
  (void)losses(1, whole + path("whole") + "/model.safetensors --recipe zero1");
  (void)losses(2, whole + path("spread") + "/model.safetensors --recipe dtfm --stages 2");
  EXPECT_EQ(tensors("spread/model.safetensors"), tensors("whole/model.safetensors"));
  EXPECT_EQ(io::read_json(path("spread") + "/config.json"), io::read_json(path("whole") + "/config.json"));
  EXPECT_EQ(io::read_json(path("whole") + "/config.json").at("architectures"),
            io::Json::array({"LlamaForSequenceClassification"}));
  // Every other held-out label is another than the text says.
  std::string half;
  for (int i = 0; i < 40; ++i)
    half += concat("{\"text\": \"", i % 2 == 0 ? "good" : "bad", i % 7, "\", \"label\": ", i >= 20 ? 1 - i % 2 : i % 2,
                   "}\n");
  write("texts.jsonl", half);
  for (const char* const recipe : {"zero1 --pack", "atom --eval-every 1", "diloco", "acco --precision bf16"}) {
    (void)losses(3, concat("--classes 2 --batch 4 --steps 1 --lr 0 --report ", path("report.html"), " --init-adapter ",
                           path("mine"), " --recipe ", recipe));
    EXPECT_EQ(accuracy, 0.5) << recipe;
  }
  EXPECT_THAT(io::read_file(path("report.html"), 64_MiB), HasSubstr("held-out accuracy"));
  EXPECT_EQ(tensors("again/adapter_model.safetensors"), written);
  const Ending other = run_ranks(REEF_TEST_MPIEXEC, 1,
                                 concat(REEF_TRAIN " --init ", path("from"), " --steps 1 --init-adapter ", path("mine")));
  EXPECT_EQ(other.status, 2) << other;
  EXPECT_THAT(other.errors, HasSubstr("has a class head"));
}

TEST_F(ReefTrainModels, deep_prompts_are_trained_by_stages_to_the_bits_of_one_process_and_go_on_from_their_files) {
  write_config("llama");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  const auto prompt = [&](const std::string& to, int ranks, const std::string& options) {
    const Ending ending = train(ranks, concat("--init ", path("from"), " --export-adapter ", path(to), " ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    return tensors(to + "/adapter_model.safetensors");
  };
  const std::string deep = "--steps 3 --micro-batches 2 --prompts 4 --deep-prompts --recipe ";
  const auto alone = prompt("alone", 1, deep + "zero1");
  EXPECT_EQ(alone.size(), 3U);
  const io::SafetensorsFile file(path("alone") + "/adapter_model.safetensors");
  EXPECT_NE(file.find("base_model.model.model.layers.1.prompt.prompt_embeddings"), nullptr);
  EXPECT_EQ(prompt("stages", 2, deep + "dtfm --stages 2"), alone);
  EXPECT_EQ(prompt("again", 1, "--steps 1 --lr 0 --init-adapter " + path("alone")), alone);
}

TEST_F(ReefTrainModels, an_export_keeps_what_the_folder_says_of_tokens_and_has_its_tokenizer) {
  write_config("llama", R"(, "bos_token_id": 3, "eos_token_id": [5, 7], "pad_token_id": null, "torch_dtype": "float16")");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  for (const char* const folder : {"from", "llama"}) {
    const io::Json json = config(folder);
    EXPECT_EQ(json.at("bos_token_id"), 3) << folder;
    EXPECT_EQ(json.at("eos_token_id"), (io::Json{5, 7})) << folder;
    EXPECT_TRUE(json.at("pad_token_id").is_null()) << folder;
  }
  EXPECT_EQ(config("from").at("torch_dtype"), "float32") << "that of the weights that were written";
  write("from/generation_config.json", R"({"eos_token_id": [5, 7], "temperature": 0.6})");
  write("from/tokenizer_config.json", R"({"chat_template": "none"})");
  (void)trained("from", "bytes", 1, "--steps 1 --precision bf16");
  EXPECT_EQ(config("bytes").at("eos_token_id"), (io::Json{5, 7}));
  EXPECT_EQ(config("bytes").at("torch_dtype"), "bfloat16");
  EXPECT_EQ(io::read_file(path("bytes/generation_config.json"), 1_MiB), io::read_file(path("from/generation_config.json"), 1_MiB));
  EXPECT_FALSE(fs::exists(path("bytes/tokenizer_config.json"))) << "another tokenizer was trained with";
  // A tokenizer.json of bytes lies in the folder, so it is the one that is trained with.
  io::Json vocabulary = io::Json::object();
  const auto characters = data::detail::byte_characters();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string visible;
    append_utf8(visible, characters[byte]);
    vocabulary[visible] = byte;
  }
  write("from/tokenizer.json", io::Json{{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                                        {"decoder", {{"type", "ByteLevel"}}},
                                        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", io::Json::array()}}}}
                                  .dump());
  (void)trained("from", "own", 1, "--steps 1");
  for (const char* const file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_EQ(io::read_file(path("own/") + file, 1_MiB), io::read_file(path("from/") + file, 1_MiB)) << file;
  }
}

TEST_F(ReefTrainModels, a_config_json_of_more_layers_than_the_weights_is_refused_at_once) {
  write_config("llama");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  io::Json more = config("from");
  more["num_hidden_layers"] = 10'000;
  write("from/config.json", more.dump());
  const Ending ending = train(1, "--init " + path("from") + " --steps 1");
  EXPECT_EQ(ending.status, 2) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("tensors of 2 layers, and its configuration 10000"));
}

TEST_F(ReefTrainModels, a_gpt2_is_what_its_config_json_says_and_keeps_its_dropouts) {
  fs::create_directories(path("gpt2"));
  const Ending first = train(1, concat("--model 2x2x16 --steps 1 --export ", path("gpt2"), "/model.safetensors"));
  EXPECT_EQ(first.status, 0) << first;
  io::Json own = config("gpt2");
  own["embd_pdrop"] = 0.1;
  own["attn_pdrop"] = 0.2;
  own["resid_pdrop"] = 0.3;
  write("gpt2/config.json", own.dump());
  (void)trained("gpt2", "again", 1, "--steps 1 --lr 0");
  EXPECT_EQ(weights("again"), weights("gpt2"));
  EXPECT_EQ(config("again"), own);
  const Ending other = train(1, concat("--model 2x4x16 --steps 1 --init ", path("gpt2")));
  EXPECT_THAT(other.errors, HasSubstr("--model has 4 heads"));
}

TEST_F(ReefTrainModels, frozen_weights_are_exported_as_they_came) {
  write_config("llama");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  (void)trained("from", "part", 2, "--steps 2 --recipe zero1 --freeze '*.layers.0.*' --freeze lm_head.weight");
  for (const auto& [name, bytes] : weights("from")) {
    const bool frozen = name.starts_with("model.layers.0.") || name == "lm_head.weight";
    EXPECT_EQ(weights("part").at(name) == bytes, frozen) << name;
  }
}

TEST_F(ReefTrainModels, adapters_are_trained_by_stages_and_swapping_to_the_bits_of_one_process_and_go_on_from_their_files) {
  write_config("llama");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  const auto adapter = [&](const std::string& to, int ranks, const std::string& options) {
    const Ending ending = train(ranks, concat("--init ", path("from"), " --export-adapter ", path(to), " ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    return tensors(to + "/adapter_model.safetensors");
  };
  const std::string lora = "--steps 3 --micro-batches 2 --lora 2:4:q_proj,v_proj --recipe ";
  const auto alone = adapter("alone", 1, lora + "zero1");
  EXPECT_EQ(alone.size(), 8U);
  EXPECT_EQ(adapter("stages", 2, lora + "dtfm --stages 2"), alone);
  EXPECT_EQ(adapter("swapped", 1, lora + "atom"), alone);
  EXPECT_EQ(adapter("again", 1, "--steps 1 --lr 0 --init-adapter " + path("alone")), alone);
  const io::Json written = io::read_json(path("alone") + "/adapter_config.json");
  EXPECT_EQ(written.at("peft_type"), "LORA");
  EXPECT_EQ(written.at("r"), 2);
  EXPECT_EQ(written.at("base_model_name_or_path"), path("from"));

  (void)trained("from", "merged", 1, "--steps 1 --lr 0 --init-adapter " + path("alone"));
  for (const auto& [name, bytes] : weights("from")) {
    const bool adapted = name.find("q_proj") != std::string::npos || name.find("v_proj") != std::string::npos;
    EXPECT_EQ(weights("merged").at(name) != bytes, adapted) << name;
  }
}

TEST_F(ReefTrainModels, adapters_are_trained_by_every_recipe_and_resumed_on_other_ranks_to_the_same_bits) {
  write_config("llama");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  const auto adapter = [&](const std::string& to, int ranks, const std::string& options) {
    fs::create_directories(path(to));
    const Ending ending = train(ranks, concat("--init ", path("from"), " --lora 2:4 --micro-batches 2 --export ", path(to),
                                              "/model.safetensors --export-adapter ", path(to), " ", options));
    EXPECT_EQ(ending.status, 0) << options << "\n" << ending;
    return tensors(to + "/adapter_model.safetensors");
  };
  const auto begun = adapter("begun", 1, "--steps 1 --lr 0");
  for (const std::string recipe : {"ddp", "dpu", "acco", "acco-wp", "diloco", "sparse", "reef", "fusion"}) {
    const bool meets_seldom = recipe == "diloco" || recipe == "sparse";
    EXPECT_TRUE(adapter(recipe, 2, concat("--steps 4 --recipe ", recipe, meets_seldom ? " --sync-every 2" : "")) != begun)
        << recipe;
    for (const auto& [name, bytes] : weights("from")) {
      if (name.ends_with("_proj.weight")) continue;  // adapters are merged into it
      EXPECT_EQ(weights(recipe).at(name), bytes) << recipe << ": " << name << " is frozen";
    }
  }

  const auto whole = adapter("whole", 1, "--steps 3 --recipe zero1");
  const std::string run = "--steps 3 --recipe dtfm --checkpoint-every 2 --checkpoint " + path("kept");
  EXPECT_TRUE(adapter("stages", 2, run + " --stages 2") == whole);
  fs::remove_all(path("kept/step-000000003"));
  EXPECT_TRUE(adapter("rest", 1, run + " --resume") == whole);
  const Ending other = train(1, concat("--init ", path("from"), " --lora 3:4 --resume ", run));
  EXPECT_NE(other.status, 0) << other;
  EXPECT_THAT(other.errors, HasSubstr("--lora"));
}

TEST_F(ReefTrainModels, soft_prompts_are_trained_by_every_recipe_to_the_bits_of_one_process_and_go_on_from_their_files) {
  write_config("llama");
  (void)trained("llama/config.json", "from", 1, "--steps 1");
  const auto prompt = [&](const std::string& to, int ranks, const std::string& options) {
    const Ending ending = train(ranks, concat("--init ", path("from"), " --export-adapter ", path(to), " ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    return tensors(to + "/adapter_model.safetensors");
  };
  const std::string prompts = "--steps 3 --micro-batches 2 --prompts 5 --recipe ";
  const auto alone = prompt("alone", 1, prompts + "zero1");
  EXPECT_EQ(alone.size(), 1U);
  EXPECT_EQ(prompt("stages", 2, prompts + "dtfm --stages 2"), alone);
  EXPECT_EQ(prompt("swapped", 1, prompts + "atom"), alone);
  EXPECT_EQ(prompt("again", 1, "--steps 1 --lr 0 --init-adapter " + path("alone")), alone);
  EXPECT_NE(prompt("further", 1, "--steps 1 --init-adapter " + path("alone")), alone);
  const io::Json written = io::read_json(path("alone") + "/adapter_config.json");
  EXPECT_EQ(written.at("peft_type"), "PROMPT_TUNING");
  EXPECT_EQ(written.at("num_virtual_tokens"), 5);
  EXPECT_EQ(written.at("base_model_name_or_path"), path("from"));
  for (const char* const recipe : {"ddp", "dpu", "acco", "acco-wp", "diloco", "sparse", "reef", "fusion"}) {
    EXPECT_NE(prompt(recipe, 2, concat("--steps 3 --prompts 5 --recipe ", recipe)), alone) << recipe;
  }
}

TEST_F(ReefTrainModels, a_run_of_a_soft_prompt_resumes_with_no_other_prompt) {
  write_config("llama");
  const auto run = [&](const std::string& options) {
    return train(1, concat("--init ", path("llama"), "/config.json --checkpoint ", path("kept"), " ", options));
  };
  const Ending begun = run("--prompts 5 --steps 2");
  EXPECT_EQ(begun.status, 0) << begun;
  const Ending resumed = run("--prompts 5 --steps 3 --resume");
  EXPECT_EQ(resumed.status, 0) << resumed;
  const Ending other = run("--prompts 6 --steps 3 --resume");
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.errors, HasSubstr("another --prompts"));
}

TEST_F(ReefTrainModels, refuses_by_name_what_a_config_json_and_options_cannot_be_together) {
  const auto refused = [&](const std::string& options, const std::string& why) {
    const Ending ending = train(1, "--steps 1 " + options);
    EXPECT_NE(ending.status, 0) << options;
    EXPECT_THAT(ending.errors, HasSubstr(why)) << options;
  };
  write_config("llama");
  const std::string init = "--init " + path("llama") + "/config.json ";
  refused(init + "--model 1x2x16", "of this --init its config.json says what is trained");
  refused(init + "--dropout 0.1", "of this --init its config.json says what is trained");
  refused(init + "--context 33", "is made for 32 tokens");
  refused("--init " + path("llama"), "model.safetensors");
  write_config("llama", "", 97);
  refused(init, "has 256 tokens, but " + path("llama") + "/config.json is of 97");
  fs::create_directories(path("opt"));
  write_config("opt");
  refused("--init " + path("opt") + "/config.json", "model_type is 'opt'");
  write_config("llama", R"(, "rope_scaling": {"rope_type": "yarn", "factor": 2})");
  refused(init, "rope_scaling.rope_type is 'yarn'");
  write_config("llama");
  refused(init + "--lora 0", "rank is 0");
  refused(init + "--lora 4:x", "'4:x' is not RANK");
  refused(init + "--lora 4:0", "'4:0' has ALPHA 0, which trains nothing");
  refused(init + "--classes 1", "--classes");
  refused(init + "--lora 4:8:c_fc", "the target 'c_fc'");
  refused(init + "--freeze '*.kernel'", "no parameter to freeze fits '*.kernel'");
  refused(init + "--freeze '*'", "parameters of the graph are frozen");
  refused(init + "--export-adapter " + path("none"), "without them there is no adapter");
  fs::create_directories(path("adapter"));
  write("adapter/adapter_config.json",
        R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "use_dora": true})");
  refused(init + "--init-adapter " + path("adapter"), "use_dora is true");
  refused(init + "--lora 4 --init-adapter " + path("adapter"), "give one of them");
  write("adapter/adapter_config.json",
        R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "c_fc"]})");
  refused(init + "--init-adapter " + path("adapter"), "adapter_config.json': target_modules: ");
  refused(init + "--prompts 4 --init-adapter " + path("adapter"), "give one of them");
  refused(init + "--prompts 4 --lora 4", "an adapter's folder has one of them");
  refused(init + "--prompts 0", "--prompts");
  refused(init + "--prompts 16", "leave no room for text in a --context of 16");
  refused(init + "--prompts 4 --export " + path("none") + "/model.safetensors", "--export-adapter writes the prompt");
  refused("--prompts 4 --freeze '*'", "parameters of the graph are frozen");
  write("adapter/adapter_config.json", R"({"peft_type": "P_TUNING", "num_virtual_tokens": 4})");
  refused(init + "--init-adapter " + path("adapter"), "peft_type is 'P_TUNING'");
  write("adapter/adapter_config.json", R"({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 16})");
  refused(init + "--init-adapter " + path("adapter"), "leave no room for text in a --context of 16");
  write_config("qwen3");
  refused(init + "--export " + path("qwen3") + "/model.safetensors",
          "config.json is not of this model");
}

}  // namespace
}  // namespace reef::test
