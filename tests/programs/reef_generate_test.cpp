// reef-generate as a user runs it, on small models whose logits and tokens are known.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "data/random_strings.hpp"
#include "support/job.hpp"
#include "support/temporary_folder.hpp"

namespace reef::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

Ending generate(const std::string& options) { return run_command(concat(REEF_GENERATE, " ", options)); }

std::string model(const std::string& name) { return concat("--model ", REEF_TEST_DATA, "/", name, " "); }

std::string in_words(const Tokens& tokens) {
  std::string words;
  for (const std::int32_t token : tokens) words += concat(words.empty() ? "" : " ", token);
  return words;
}

io::Json answer_to(const std::string& options) {
  const Ending ending = generate(options);
  EXPECT_EQ(ending.status, 0) << ending;
  return io::parse_json(ending.output, "answer");
}

TEST(ReefGenerate, has_the_tokens_and_logits_of_its_cases_with_a_cache_and_without) {
  for (const char* const name : {"llama_grouped", "llama_tied", "gpt2_cache", "mistral_window", "qwen3_heads", "bloom_alibi", "bloom_untied", "neox_parallel",
                               "neox_sequential"}) {
    SCOPED_TRACE(name);
    const std::string file = concat(REEF_TEST_DATA, "/", name, "/expected.json");
    const io::Json expected = io::read_json(file);
    const auto tokens = io::require<Tokens>(expected, "tokens", file);
    const auto greedy = io::require<Tokens>(expected, "greedy", file);
    const auto wanted = io::require<std::vector<std::vector<double>>>(expected, "logits", file);
    const std::string options = concat(model(name), "--tokens '", in_words(tokens), "' --new ", greedy.size(),
                                       " --temperature 0 --json --logits ");
    const io::Json answer = answer_to(options);
    EXPECT_EQ(answer["tokens"].get<Tokens>(), greedy);
    const auto logits = answer["logits"].get<std::vector<std::vector<double>>>();
    ASSERT_EQ(logits.size(), tokens.size() + greedy.size() - 1);
    double largest = 0, furthest = 0;
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      ASSERT_EQ(logits[t].size(), wanted[t].size());
      for (std::size_t v = 0; v < wanted[t].size(); ++v) {
        largest = std::max(largest, std::abs(wanted[t][v]));
        furthest = std::max(furthest, std::abs(logits[t][v] - wanted[t][v]));
      }
    }
    EXPECT_LE(furthest, 1e-5 * largest);
    const auto logprobs = answer["logprobs"].get<std::vector<double>>();
    for (std::size_t i = 0; i < greedy.size(); ++i) {
      const auto& row = logits[tokens.size() - 1 + i];
      double sum = 0;
      for (const double logit : row) sum += std::exp(logit);
      EXPECT_NEAR(logprobs[i], row[static_cast<std::size_t>(greedy[i])] - std::log(sum), 1e-9 * largest);
    }
    // The texts of numbers are of all digits: equal ones are equal bits.
    EXPECT_EQ(generate(options + "--no-cache").output, answer.dump() + "\n");
    EXPECT_EQ(generate(options + "--rows 2 --threads 1").output, answer.dump() + "\n");
  }
}

TEST(ReefGenerate, continues_several_prompts_side_by_side_as_it_does_each) {
  const std::string options = model("llama_grouped") + "--new 9 --temperature 1 --seed 5 --json ";
  const io::Json both = answer_to(options + "--tokens '5 17 80' --tokens 3");
  ASSERT_EQ(both["continuations"].size(), 2U);
  EXPECT_EQ(both["continuations"][0], answer_to(options + "--tokens 5,17,80"));
  EXPECT_EQ(both, answer_to(options + "--tokens '5 17 80' --tokens 3 --no-cache"));
  EXPECT_NE(both, answer_to(model("llama_grouped") + "--new 9 --temperature 1 --seed 6 --json --tokens '5 17 80' --tokens 3"));
}

TEST(ReefGenerate, has_the_same_texts_with_a_draft_and_tells_what_became_of_it) {
  for (const char* const name : {"llama_grouped", "gpt2_cache", "bloom_alibi", "neox_parallel"}) {
    SCOPED_TRACE(name);
    for (const char* const way : {"--temperature 0", "--temperature 0.7 --top-p 0.9 --seed 3"}) {
      const std::string options = concat(model(name), "--tokens '5 17 3 5 17' --tokens 9 --new 20 --json ", way);
      const io::Json plain = answer_to(options);
      for (const std::string& draft : {std::string("ngram"), concat(REEF_TEST_DATA, "/", name)}) {
        for (const char* const tokens : {"auto", "6"}) {
          io::Json answer = answer_to(concat(options, " --draft '", draft, "' --draft-tokens ", tokens));
          const auto accepted = io::require<int>(answer["draft"], "accepted", "draft");
          const auto proposed = io::require<int>(answer["draft"], "proposed", "draft");
          EXPECT_LE(accepted, proposed);
          if (draft != "ngram") {
            EXPECT_EQ(accepted, proposed) << "the model itself is right";
          }
          answer.erase("draft");
          EXPECT_EQ(answer, plain);
        }
      }
    }
  }
  const std::string options = model("llama_grouped") + "--tokens '5 17 80 33 90 2 61' --new 10 --temperature 0 ";
  const Ending ending = generate(concat(options, "--draft ", REEF_TEST_DATA, "/llama_grouped --draft-tokens 2"));
  EXPECT_EQ(ending.output, "90 66 92 51 54 18 29 32 61 90\n");
  EXPECT_EQ(ending.errors, "reef-generate: the draft: 6 of 6 tokens accepted, in 4 passes\n");
}

TEST(ReefGenerate, searches_for_the_likeliest_continuations) {
  const std::string options = model("llama_grouped") + "--tokens '5 17 80 33' --new 6 --json ";
  const io::Json one = answer_to(options + "--beams 1");
  const io::Json greedy = answer_to(options + "--temperature 0");
  ASSERT_EQ(one["beams"].size(), 1U);
  EXPECT_EQ(one["beams"][0]["tokens"], greedy["tokens"]);
  const io::Json four = answer_to(options + "--beams 4 --length-penalty 0");
  ASSERT_EQ(four["beams"].size(), 4U);
  double before = 0;
  for (const io::Json& beam : four["beams"]) {
    EXPECT_EQ(beam["score"], beam["log_probability"]);
    EXPECT_LE(beam["score"].get<double>(), before);
    before = beam["score"].get<double>();
    // Its log-probability is that of its tokens, one behind the other.
    const auto tokens = beam["tokens"].get<Tokens>();
    ASSERT_EQ(tokens.size(), 6U);
    double sum = 0;
    Tokens text{5, 17, 80, 33};
    for (const std::int32_t token : tokens) {
      const io::Json next = answer_to(concat(model("llama_grouped"), "--tokens '", in_words(text), "' --new 1 --json --logits"));
      const auto row = next["logits"].back().get<std::vector<double>>();
      double all = 0;
      for (const double logit : row) all += std::exp(logit);
      sum += row[static_cast<std::size_t>(token)] - std::log(all);
      text.push_back(token);
    }
    EXPECT_NEAR(sum, beam["log_probability"].get<double>(), 1e-4);
  }
  EXPECT_GE(four["beams"][0]["log_probability"].get<double>(), one["beams"][0]["log_probability"].get<double>());
  const io::Json both = answer_to(options + "--beams 4 --length-penalty 0 --tokens 9");
  EXPECT_EQ(both["continuations"][0], four);
  EXPECT_EQ(generate(model("llama_grouped") + "--tokens '5 17 80 33' --new 6 --beams 1").output,
            in_words(greedy["tokens"].get<Tokens>()) + "\n");
}

TEST(ReefGenerate, keeps_keys_and_values_in_fewer_bits) {
  const std::string options = model("llama_grouped") + "--tokens '5 17 80' --new 3 --json --logits ";
  const io::Json wide = answer_to(options);
  for (const char* form : {"bf16", "int8"}) {
    const io::Json answer = answer_to(concat(options, "--kv ", form));
    EXPECT_EQ(answer, answer_to(concat(options, "--no-cache --kv ", form)));
    EXPECT_NE(answer["logits"], wide["logits"]);
  }
}

TEST(ReefGenerate, takes_weights_in_fewer_bits) {
  const std::string options = model("llama_grouped") + "--tokens '5 17 80' --new 3 --json --logits ";
  const auto wide = answer_to(options)["logits"][2].get<std::vector<double>>();
  for (const auto& [form, most] : {std::pair("bf16", 0x1p-5), std::pair("int8", 0x1p-4), std::pair("blockwise8", 0x1p-3), std::pair("nf4", 1.0)}) {
    SCOPED_TRACE(form);
    const io::Json answer = answer_to(concat(options, "--weights ", form));
    EXPECT_EQ(answer, answer_to(concat(options, "--no-cache --weights ", form)));
    const auto narrow = answer["logits"][2].get<std::vector<double>>();
    double largest = 0, furthest = 0;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      largest = std::max(largest, std::abs(wide[i]));
      furthest = std::max(furthest, std::abs(wide[i] - narrow[i]));
    }
    EXPECT_GT(furthest, 0);
    EXPECT_LT(furthest, most * largest);
  }
}

TEST(ReefGenerate, keeps_outliers_of_int8_as_they_are_given) {
  const std::string options = model("llama_grouped") + "--tokens '5 17 80' --new 3 --json --logits ";
  const io::Json usual = answer_to(options + "--weights int8");
  EXPECT_EQ(usual, answer_to(options + "--weights int8 --outliers 1"));
  EXPECT_NE(usual["logits"], answer_to(options + "--weights int8 --outliers 0")["logits"]);
  EXPECT_EQ(answer_to(options + "--weights int8 --outliers 256"), answer_to(options));
  const Ending refused = run_command(concat(REEF_GENERATE, " ", options, "--weights nf4 --outliers 1"));
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.errors.find("--outliers"), std::string::npos) << refused;
  EXPECT_NE(refused.errors.find("int8"), std::string::npos) << refused;
}

TEST(ReefGenerate, reads_and_writes_text_where_there_is_a_tokenizer) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "one two three four\n";
  write_file(folder / "text.txt", text);
  const std::string data = (folder / "text.txt").string();
  const std::string made = (folder / "model").string();
  fs::create_directory(made);
  const Ending trained = run_command(concat(REEF_TRAIN, " --data '", data, "' --model 2x2x32 --context 32 --batch 16 --steps 150 "
                                            "--lr 0.01 --threads 1 --export '", made, "/model.safetensors'"));
  ASSERT_EQ(trained.status, 0) << trained;
  const std::string options = concat("--model '", made, "' --tokenizer bytes ");
  const std::string greedy = options + "--temperature 0 --new 15 --prompt 'one two thr' ";
  EXPECT_EQ(generate(greedy).output, "ee four\none two\n");
  EXPECT_EQ(generate(greedy + "--stop ' f' --stop absent").output, "ee\n");
  const io::Json answer = answer_to(greedy + "--json");
  EXPECT_EQ(answer["text"], "ee four\none two");
  EXPECT_EQ(answer["tokens"].size(), 15U);

  const io::Json score = answer_to(concat(options, "--score '", data, "' --json"));
  EXPECT_EQ(score["tokens"], static_cast<std::int64_t>(text.size() - (text.size() + 31) / 32));
  EXPECT_LT(score["perplexity"], 1.5);
  EXPECT_GE(score["perplexity"], 1.0);
  EXPECT_THAT(generate(concat(options, "--score '", data, "'")).output, HasSubstr("perplexity 1."));
  const Ending nothing = generate(concat(options, "--score '", data, "' --context 1"));
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(nothing.output, "");
  EXPECT_THAT(nothing.errors, HasSubstr("--context 1 leaves nothing to judge"));
  EXPECT_GE(answer_to(concat(options, "--score '", data, "' --context 2 --json"))["perplexity"], 1.0);
  write_file(folder / "spaces.jsonl",
             R"({"text": "one two three four "})"
             "\n"
             R"({"text": "one two three four\none"})"
             "\n"
             R"({"text": "one two three \n"})"
             "\n");
  EXPECT_EQ(answer_to(concat(options, "--score '", (folder / "spaces.jsonl").string(), "' --json"))["right"], 3);
  write_file(folder / "words.jsonl", "{\"text\": \"one two three four\"}\n\n{\"text\": \"two three five\"}\n");
  const io::Json words = answer_to(concat(options, "--score '", (folder / "words.jsonl").string(), "' --json"));
  EXPECT_EQ(words["right"], 1);
  EXPECT_EQ(words["lines"], 2);
  EXPECT_EQ(words["accuracy"], 0.5);
  write_file(folder / "bad.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"word\"}\n");
  const Ending bad = generate(concat(options, "--score '", (folder / "bad.jsonl").string(), "'"));
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.errors, HasSubstr("line 2: the text has no last word"));
  write_file(folder / "bad.jsonl", concat("{\"text\": \"one two\"}\n{\"text\": \"one ", std::string(37, 'o'), "\"}\n"));
  EXPECT_THAT(generate(concat(options, "--score '", (folder / "bad.jsonl").string(), "'")).errors,
              HasSubstr("line 2: the text has 41 tokens, but the model is made for 32"));
  EXPECT_THAT(generate(concat(options, "--score '", data, "' --context 200")).errors, HasSubstr("fix: --context 32, or less"));
}

TEST(ReefGenerate, runs_adapters_beside_a_model_as_if_they_were_merged) {
  const TemporaryFolder folder;
  const std::string base = (folder / "base").string();
  const std::string adapter = (folder / "adapter").string();
  const std::string merged = (folder / "merged").string();
  for (const std::string& made : {base, merged}) fs::create_directory(made);
  io::Json config = io::read_json(concat(REEF_TEST_DATA, "/llama_grouped/config.json"));
  config["vocab_size"] = 256;
  write_file(folder / "config.json", config.dump());
  write_file(folder / "text.txt", std::string(400, '7') + std::string(400, '3'));
  const std::string train = concat(REEF_TRAIN, " --tokenizer bytes --data '", (folder / "text.txt").string(),
                                   "' --context 16 --batch 4 --lr 0.01 --threads 1 ");
  const Ending scratch = run_command(concat(train, "--steps 1 --init '", (folder / "config.json").string(), "' --export '",
                                            base, "/model.safetensors'"));
  ASSERT_EQ(scratch.status, 0) << scratch;
  const Ending trained = run_command(concat(train, "--steps 5 --init '", base, "' --lora 4:8 --export-adapter '", adapter,
                                            "' --export '", merged, "/model.safetensors'"));
  ASSERT_EQ(trained.status, 0) << trained;
  const std::string options = " --tokens '5 17 80 33' --new 6 --temperature 0 --json --logits";
  const io::Json beside = answer_to(concat("--model '", base, "' --adapter '", adapter, "'", options));
  const io::Json inside = answer_to(concat("--model '", merged, "'", options));
  EXPECT_NE(beside, answer_to(concat("--model '", base, "'", options)));
  const auto a = beside["logits"][3].get<std::vector<double>>();
  const auto b = inside["logits"][3].get<std::vector<double>>();
  double largest = 0, furthest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    furthest = std::max(furthest, std::abs(a[i] - b[i]));
  }
  EXPECT_LT(furthest, 1e-5 * largest);
  const Ending missing = generate(concat("--model '", base, "' --adapter '", merged, "'", options));
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.errors, HasSubstr("adapter_config.json"));
}

TEST(ReefGenerate, runs_behind_a_soft_prompt_with_the_bits_of_computing_all_anew) {
  const TemporaryFolder folder;
  const std::string base = (folder / "base").string();
  const std::string adapter = (folder / "adapter").string();
  fs::create_directory(base);
  io::Json config = io::read_json(concat(REEF_TEST_DATA, "/llama_grouped/config.json"));
  config["vocab_size"] = 256;
  config["max_position_embeddings"] = 32;
  write_file(folder / "config.json", config.dump());
  write_file(folder / "text.txt", std::string(400, '7') + std::string(400, '3'));
  const std::string train = concat(REEF_TRAIN, " --tokenizer bytes --data '", (folder / "text.txt").string(),
                                   "' --context 16 --batch 4 --lr 0.05 --threads 1 ");
  const Ending scratch = run_command(concat(train, "--steps 1 --init '", (folder / "config.json").string(), "' --export '",
                                            base, "/model.safetensors'"));
  ASSERT_EQ(scratch.status, 0) << scratch;
  const Ending trained = run_command(concat(train, "--steps 5 --init '", base, "' --prompts 6 --export-adapter '", adapter, "'"));
  ASSERT_EQ(trained.status, 0) << trained;
  const std::string prompted = concat("--model '", base, "' --adapter '", adapter, "'");
  const std::string options = " --tokens '5 17 80 33' --new 6 --temperature 0 --repetition-penalty 1.5 --json --logits";
  const io::Json found = answer_to(prompted + options);
  EXPECT_NE(found, answer_to(concat("--model '", base, "'", options)));
  EXPECT_EQ(found["logits"].size(), 4U + 6 - 1);
  EXPECT_EQ(found["tokens"].size(), 6U);
  EXPECT_EQ(answer_to(prompted + options + " --no-cache"), found);
  EXPECT_EQ(answer_to(prompted + options + " --rows 1"), found);
  EXPECT_EQ(answer_to(prompted + options + " --context 12"), found);
  // As many as there is room for behind the prompt.
  EXPECT_EQ(answer_to(prompted + " --tokens '5 17 80 33' --json")["tokens"].size(), 32U - 6 - 4);
  const Ending longer = generate(prompted + " --tokens 5 --new 26");
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.errors, HasSubstr("a text would have 33 tokens"));
  const auto scored = [&](const std::string& model) {
    return answer_to(concat(model, " --tokenizer bytes --json --score '", (folder / "text.txt").string(), "'"));
  };
  EXPECT_EQ(scored(prompted)["context"], 32 - 6);
  EXPECT_LT(scored(prompted)["loss"].get<double>(), scored(concat("--model '", base, "'"))["loss"].get<double>());
}

/// A folder with a small Llama of bytes that was drawn, in "base".
class TunedModels : public testing::Test {
protected:
  TunedModels() {
    fs::create_directory(folder_ / "base");
    io::Json config = io::read_json(concat(REEF_TEST_DATA, "/llama_grouped/config.json"));
    config["vocab_size"] = 256;
    config["max_position_embeddings"] = 32;
    write_file(folder_ / "config.json", config.dump());
    write_file(folder_ / "text.txt", std::string(400, '7') + std::string(400, '3'));
    train(concat("--data '", path("text.txt"), "' --steps 1 --init '", path("config.json"), "' --export '",
                 path("base"), "/model.safetensors'"));
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { write_file(folder_ / name, text); }
  /// Returns what the run has told.
  std::string train(const std::string& options) const {
    const Ending ending =
        run_command(concat(REEF_TRAIN, " --tokenizer bytes --context 16 --batch 4 --lr 0.05 --threads 1 ", options));
    EXPECT_EQ(ending.status, 0) << ending;
    return ending.errors;
  }
  [[nodiscard]] std::string base() const { return concat("--model '", path("base"), "' "); }

private:
  TemporaryFolder folder_;
};

TEST_F(TunedModels, run_with_deep_prompts_with_the_bits_of_computing_all_anew) {
  const auto adapter = [&](const std::string& name, const std::string& options) {
    train(concat("--data '", path("text.txt"), "' --steps 5 --init '", path("base"), "' --prompts 6 ", options,
                 " --export-adapter '", path(name), "'"));
    return concat(base(), "--adapter '", path(name), "'");
  };
  const std::string deep = adapter("deep", "--deep-prompts"), shallow = adapter("shallow", "");
  const std::string options = " --tokens '5 17 80 33' --new 6 --temperature 0 --json --logits";
  const io::Json found = answer_to(deep + options);
  EXPECT_EQ(found["logits"].size(), 4U + 6 - 1);
  EXPECT_NE(found, answer_to(shallow + options));
  EXPECT_EQ(answer_to(deep + options + " --no-cache"), found);
  EXPECT_EQ(answer_to(deep + options + " --rows 1"), found);
  EXPECT_EQ(answer_to(deep + options + " --rows 4 --threads 2"), found);
  const io::Json beside = answer_to(deep + options + " --tokens '9 9'");
  EXPECT_EQ(beside["continuations"][0], found);
}

TEST_F(TunedModels, choose_outliers_of_int8_by_the_texts_that_they_are_calibrated_on) {
  const std::string options =
      concat(base(), "--tokenizer bytes --tokens '5 17 80 33' --new 4 --temperature 0 --json --logits ");
  const std::string calibrated = concat(options, "--weights int8 --outliers 16 --calibrate '", path("text.txt"), "' ");
  const Ending told = generate(calibrated + "--calibrate-tokens 60");
  EXPECT_EQ(told.status, 0) << told;
  EXPECT_THAT(told.errors, HasSubstr("calibrating: 32 of 60 tokens"));
  const io::Json found = io::parse_json(told.output, "answer");
  EXPECT_NE(found["logits"], answer_to(options + "--weights int8 --outliers 16")["logits"]);
  EXPECT_EQ(answer_to(calibrated + "--calibrate-tokens 60 --rows 7 --threads 2"), found);
  write("lines.jsonl", concat("{\"text\": \"", std::string(32, '7'), "\"}\n\n{\"prompt\": \"77777777\", \"completion\": \"",
                              std::string(20, '7'), "\"}\n"));
  EXPECT_EQ(answer_to(concat(options, "--weights int8 --outliers 16 --calibrate '", path("lines.jsonl"), "'")), found)
      << "windows of 32 and 28 tokens, as of the text";
  EXPECT_EQ(answer_to(concat(options, "--weights int8 --outliers 256 --calibrate '", path("text.txt"), "'")),
            answer_to(options));

  const auto refused = [&](const std::string& more, int status, const std::string& why) {
    const Ending ending = generate(options + more);
    EXPECT_EQ(ending.status, status) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(why));
  };
  refused(concat("--weights nf4 --calibrate '", path("text.txt"), "'"), 2, "--calibrate: chooses outliers of --weights int8");
  refused(concat("--weights int8 --outliers 0 --calibrate '", path("text.txt"), "'"), 2, "of which --outliers 0 has none");
  refused("--weights int8 --calibrate-tokens 5", 2, "--calibrate-tokens: are of --calibrate");
  write("none.jsonl", "\n");
  refused(concat("--weights int8 --calibrate '", path("none.jsonl"), "'"), 1, "none.jsonl has no text");
  write("wrong.jsonl", "{\"texts\": 1}\n");
  refused(concat("--weights int8 --calibrate '", path("wrong.jsonl"), "'"), 1, "wrong.jsonl, line 1");
}

TEST_F(TunedModels, tell_the_classes_of_texts_by_a_class_head) {
  std::string texts;
  for (int i = 0; i < 40; ++i)
    texts += concat("{\"text\": \"", i % 2 == 0 ? "good" : "bad", i % 7, "\", \"label\": ", i % 2, "}\n");
  write("texts.jsonl", texts);
  const std::string told =
      train(concat("--data '", path("texts.jsonl"), "' --steps 60 --lr 0.02 --init '", path("base"),
                   "' --classes 2 --lora 2 --document-end 0 --export-adapter '", path("told"), "'"));
  EXPECT_THAT(told, HasSubstr("held-out accuracy: 1, 4 of 4 texts"));
  const std::string classes = concat(base(), "--adapter '", path("told"), "' --tokenizer bytes --document-end 0 ");
  const io::Json both = answer_to(classes + "--prompt good3 --prompt bad4 --json");
  ASSERT_EQ(both["texts"].size(), 2U);
  for (const int label : {0, 1}) {
    const io::Json& text = both["texts"][static_cast<std::size_t>(label)];
    EXPECT_EQ(text["class"], label);
    const auto probabilities = text["probabilities"].get<std::vector<double>>();
    ASSERT_EQ(probabilities.size(), 2U);
    EXPECT_NEAR(probabilities[0] + probabilities[1], 1, 1e-9);
    EXPECT_GT(probabilities[static_cast<std::size_t>(label)], 0.5);
  }
  EXPECT_EQ(answer_to(classes + "--tokens '98 97 100 52 0' --json"), both["texts"][1]);
  EXPECT_THAT(generate(classes + "--prompt bad4").output, testing::StartsWith("class 1  probabilities "));
  write("half.jsonl", "{\"text\": \"good1\", \"label\": 0}\n{\"text\": \"bad1\", \"label\": 0}\n");
  const io::Json half = answer_to(concat(classes, "--json --score '", path("half.jsonl"), "'"));
  EXPECT_EQ(half["accuracy"], 0.5);
  EXPECT_EQ(half["right"], 1);
  EXPECT_EQ(half["lines"], 2);
  EXPECT_GT(half["loss"], 0);
  EXPECT_THAT(generate(concat(classes, "--score '", path("texts.jsonl"), "'")).output,
              testing::StartsWith("accuracy 1  40 of 40 labels; loss "));

  const auto refused = [&](const std::string& options, const std::string& why, int status = 2) {
    const Ending ending = generate(options);
    EXPECT_EQ(ending.status, status) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(why));
  };
  refused(classes + "--prompt bad --new 3", "--new is of generation");
  refused(classes + "--prompt bad --temperature 0.5", "--temperature is of generation");
  refused(classes + "--prompt bad --top-k 3", "--top-k is of generation");
  refused(classes + "--prompt bad --ignore-eos", "--ignore-eos is of generation");
  refused(concat(classes, "--score '", path("text.txt"), "'"), "is no .jsonl");
  refused(base() + "--tokens 5 --document-end 0", "--document-end is of an --adapter with a class head");
  write("wrong.jsonl", "{\"text\": \"good\", \"label\": 2}\n");
  refused(concat(classes, "--score '", path("wrong.jsonl"), "'"), "label is 2, of 2 classes", 1);
}

TEST_F(TunedModels, tell_the_classes_of_texts_by_a_folder_for_sequence_classification) {
  std::string texts;
  for (int i = 0; i < 40; ++i)
    texts += concat("{\"text\": \"", i % 2 == 0 ? "good" : "bad", i % 7, "\", \"label\": ", i % 2, "}\n");
  write("texts.jsonl", texts);
  fs::create_directory(path("whole"));
  const std::string of_texts = concat("--data '", path("texts.jsonl"), "' ");
  train(concat(of_texts, "--steps 60 --lr 0.02 --init '", path("base"), "' --classes 2 --export '", path("whole"),
               "/model.safetensors'"));
  io::Json config = io::read_json(path("whole/config.json"));
  EXPECT_EQ(config["architectures"], io::Json::array({"LlamaForSequenceClassification"}));
  const std::string classes = concat("--model '", path("whole"), "' --tokenizer bytes ");
  const io::Json good = answer_to(classes + "--prompt good3 --json");
  EXPECT_EQ(good["class"], 0);
  EXPECT_EQ(good["label"], "LABEL_0");
  EXPECT_GT(good["probabilities"][0], 0.5);
  // The names and the token that pads are those of config.json, and go through a further training unchanged.
  config["id2label"] = {{"0", "fine"}, {"1", "awful"}};
  config.erase("label2id");
  config["pad_token_id"] = '#';
  write_file(path("whole/config.json"), config.dump());
  EXPECT_THAT(generate(classes + "--prompt bad4").output, testing::StartsWith("class 1 awful  probabilities "));
  io::Json named = good;
  named["label"] = "fine";
  EXPECT_EQ(answer_to(classes + "--prompt 'good3##' --json"), named);
  EXPECT_THAT(generate(concat(classes, "--score '", path("texts.jsonl"), "'")).output,
              testing::StartsWith("accuracy 1  40 of 40 labels; loss "));
  fs::create_directory(path("again"));
  const std::string told = train(concat(of_texts, "--steps 1 --lr 0 --init '", path("whole"), "' --export '",
                                        path("again"), "/model.safetensors'"));
  EXPECT_THAT(told, HasSubstr("held-out accuracy: 1, 4 of 4 texts"));
  EXPECT_EQ(io::read_file(path("again/model.safetensors"), 64_MiB), io::read_file(path("whole/model.safetensors"), 64_MiB));
  const io::Json written = io::read_json(path("again/config.json"));
  EXPECT_EQ(written["id2label"], config["id2label"]);
  EXPECT_EQ(written["label2id"], io::Json::parse(R"({"fine": 0, "awful": 1})"));
  EXPECT_EQ(written["pad_token_id"], '#');
  // So does a GPT-2.
  fs::create_directory(path("gpt"));
  fs::create_directory(path("same"));
  const std::string gpt = concat(of_texts, "--model 1x2x16 --steps 1 ");
  train(concat(gpt, "--classes 2 --export '", path("gpt"), "/model.safetensors'"));
  EXPECT_EQ(io::read_json(path("gpt/config.json"))["architectures"], io::Json::array({"GPT2ForSequenceClassification"}));
  train(concat(gpt, "--lr 0 --init '", path("gpt"), "' --export '", path("same"), "/model.safetensors'"));
  EXPECT_EQ(io::read_file(path("same/model.safetensors"), 64_MiB), io::read_file(path("gpt/model.safetensors"), 64_MiB));
  EXPECT_EQ(answer_to(concat("--model '", path("gpt"), "' --tokenizer bytes --prompt good --json"))["probabilities"].size(), 2U);
  // Adapters beside the folder have a head of their own, which goes on from the folder's.
  const std::string beside = train(concat(of_texts, "--steps 1 --lr 0 --lora 2 --init '", path("whole"),
                                          "' --export-adapter '", path("beside"), "'"));
  EXPECT_THAT(beside, HasSubstr("held-out accuracy: 1, 4 of 4 texts"));
  io::Json adapted = good;
  adapted.erase("label");
  EXPECT_EQ(answer_to(concat(classes, "--adapter '", path("beside"), "' --prompt good3 --json")), adapted);

  const auto refused = [&](const std::string& options, const std::string& why) {
    const Ending ending = generate(options);
    EXPECT_EQ(ending.status, 2) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(why));
  };
  refused(classes + "--prompt bad --new 3", "--new is of generation, and --model has a class head");
  refused(concat(classes, "--score '", path("text.txt"), "'"), "is no .jsonl, and --model has a class head");
  train(concat("--data '", path("text.txt"), "' --steps 1 --init '", path("base"), "' --prompts 2 --export-adapter '",
               path("soft"), "'"));
  refused(concat(classes, "--adapter '", path("soft"), "' --prompt bad"), "has a soft prompt, and --model tells classes");
  const auto not_trained = [&](const std::string& options, const std::string& why) {
    const Ending ending = run_command(concat(REEF_TRAIN, " --tokenizer bytes --context 16 --steps 1 --threads 1 --init '",
                                             path("whole"), "' ", options));
    EXPECT_NE(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(why));
  };
  not_trained(of_texts + "--classes 3", "--classes is 3, but ");
  not_trained(concat("--data '", path("text.txt"), "'"), "tells 2 classes, and --data has no texts with labels");
  not_trained(of_texts + "--prompt x", "--prompt: is of a sample of text, of which a model of --init makes none");
  not_trained(concat(of_texts, "--export '", path("base"), "/model.safetensors'"), "is not of this model");
}

TEST(ReefGenerate, says_where_a_tokenizer_lacks) {
  const Ending refused = generate(model("gpt2_cache") + "--prompt hello");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("--prompt needs a tokenizer"));
  const Ending scored = generate(concat(model("gpt2_cache"), "--score ", REEF_TEST_DATA, "/small_merges.txt"));
  EXPECT_EQ(scored.status, 2);
  EXPECT_THAT(scored.errors, HasSubstr("--score needs a tokenizer"));
}

/// A tokenizer.json of bytes, the first of which is the space, and of a bos, 5; it may put a space before a text.
std::string json_of_bytes(bool puts_space = false) {
  io::Json vocabulary = io::Json::object();
  const auto characters = data::detail::byte_characters();
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::string visible;
    append_utf8(visible, characters[b]);
    vocabulary[visible] = (b + 224) % 256;
  }
  const io::Json level{{"type", "ByteLevel"}, {"add_prefix_space", puts_space}};
  const io::Json bos{{"SpecialToken", {{"id", "bos"}, {"type_id", 0}}}};
  const io::Json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return io::Json{{"pre_tokenizer", level},
                  {"decoder", level},
                  {"post_processor",
                   {{"type", "TemplateProcessing"},
                    {"single", io::Json::array({bos, text})},
                    {"special_tokens", {{"bos", {{"id", "bos"}, {"ids", io::Json::array({5})}}}}}}},
                  {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", io::Json::array()}}}}
      .dump();
}

TEST(ReefGenerate, takes_the_tokenizer_that_lies_in_the_folder_of_the_model) {
  const TemporaryFolder folder;
  const std::string made = (folder / "model").string();
  fs::copy(concat(REEF_TEST_DATA, "/llama_grouped"), made);
  write_file(made + "/tokenizer.json", json_of_bytes());
  const std::string options = concat("--model '", made, "' --new 10 --temperature 0 --json ");
  const io::Json answer = answer_to(options + "--prompt 1P");
  EXPECT_EQ(answer["tokens"], answer_to(options + "--tokens '5 17 48'")["tokens"]);
  std::string text;
  for (const std::int32_t token : answer["tokens"].get<Tokens>()) text += static_cast<char>(token + 32);
  EXPECT_EQ(answer["text"], text);
  EXPECT_EQ(generate(concat("--model '", made, "' --new 10 --temperature 0 --prompt 1P")).output, text + "\n");
  write_file(made + "/tokenizer.json", "{\"normalizer\": {\"type\": \"Lowercase\"}}");
  const Ending refused = generate(options + "--prompt 1P");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, HasSubstr("normalizer is '{\"type\":\"Lowercase\"}', not NFC or null"));
}

TEST(ReefGenerate, stops_at_the_tokens_that_the_folder_or_the_tokenizer_says_end_a_text) {
  const TemporaryFolder folder;
  const std::string made = (folder / "model").string();
  fs::copy(concat(REEF_TEST_DATA, "/llama_grouped"), made);
  const std::string options = concat("--model '", made, "' --tokens '5 17 80 33 90 2 61' --new 10 --temperature 0 ");
  const Tokens whole{90, 66, 92, 51, 54, 18, 29, 32, 61, 90};
  const auto tokens = [&](const std::string& more) { return answer_to(options + "--json " + more)["tokens"].get<Tokens>(); };
  EXPECT_EQ(tokens(""), whole);
  // Of a tokenizer in which 51 is "<|endoftext|>".
  io::Json vocabulary{{"<|endoftext|>", 51}};
  const auto characters = data::detail::byte_characters();
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::string visible;
    append_utf8(visible, characters[b]);
    vocabulary[visible] = b < 51 ? b : b + 1;
  }
  fs::create_directory(folder / "bpe");
  write_file(folder / "bpe" / "vocab.json", vocabulary.dump());
  write_file(folder / "bpe" / "merges.txt", "#version: 0.2\n");
  const std::string bpe = concat("--tokenizer gpt2:'", (folder / "bpe").string(), "' ");
  EXPECT_EQ(tokens(bpe), Tokens(whole.begin(), whole.begin() + 4));
  const io::Json answer = answer_to(options + "--json " + bpe);
  EXPECT_EQ(answer["text"], "YA[") << "the end has no text";
  EXPECT_EQ(answer["logprobs"].size(), 4U);
  EXPECT_EQ(generate(options + bpe).output, "YA[\n");
  EXPECT_EQ(tokens(bpe + "--ignore-eos"), whole);
  // Of the folder, before the tokenizer's.
  io::Json config = io::read_json(made + "/config.json");
  config["eos_token_id"] = 66;
  write_file(made + "/config.json", config.dump());
  EXPECT_EQ(tokens(bpe), (Tokens{90, 66}));
  write_file(made + "/generation_config.json", R"({"eos_token_id": [5000, 92, 54]})");
  for (const char* const more : {"", "--no-cache"}) EXPECT_EQ(tokens(more), (Tokens{90, 66, 92}));
  EXPECT_EQ(generate(options).output, "90 66 92\n");
  EXPECT_EQ(tokens("--ignore-eos"), whole);
}

TEST_F(TunedModels, of_more_tokens_than_the_tokenizer_has_are_the_same_without_a_cache) {
  io::Json config = io::read_json(path("config.json"));
  config["vocab_size"] = 2000;
  for (const char* const name : {"shape", "padded"}) fs::create_directory(path(name));
  write("shape/config.json", config.dump());
  train(concat("--data '", path("text.txt"), "' --steps 1 --init '", path("shape/config.json"), "' --export '", path("padded"),
               "/model.safetensors'"));
  const std::string options = concat("--model '", path("padded"),
                                     "' --tokenizer bytes --prompt 77 --prompt 3 --new 9 --temperature 3 --top-k 0 --json ");
  const io::Json found = answer_to(options);
  EXPECT_EQ(answer_to(options + "--no-cache"), found);
  for (const io::Json& text : found["continuations"]) {
    for (const std::int32_t token : text["tokens"].get<Tokens>()) EXPECT_LT(token, 256);
  }
}

TEST_F(TunedModels, tell_the_classes_of_texts_behind_bos) {
  write("texts.jsonl", "{\"text\": \"1P\", \"label\": 0}\n{\"text\": \"3\", \"label\": 1}\n");
  fs::create_directory(path("whole"));
  train(concat("--data '", path("texts.jsonl"), "' --steps 1 --init '", path("base"), "' --classes 2 --export '",
               path("whole"), "/model.safetensors'"));
  write("whole/tokenizer.json", json_of_bytes());
  const std::string classes = concat("--model '", path("whole"), "' --json ");
  const io::Json first = answer_to(classes + "--tokens '5 17 48'");
  EXPECT_EQ(answer_to(classes + "--prompt 1P"), first);
  EXPECT_NE(answer_to(classes + "--tokens '17 48'"), first);
  const io::Json second = answer_to(classes + "--tokens '5 19'");
  const double right = first["probabilities"][0].get<double>() * second["probabilities"][1].get<double>();
  const double expected = -std::log(right) / 2;
  EXPECT_NEAR(answer_to(concat(classes, "--score '", path("texts.jsonl"), "'"))["loss"].get<double>(), expected, 1e-9);
}

TEST_F(TunedModels, score_the_last_word_by_the_tokens_of_the_whole_text) {
  write("tokenizer.json", json_of_bytes(true));
  write("words.jsonl", "{\"text\": \"1P\\n3\"}\n");
  const io::Json found = answer_to(
      concat(base(), "--tokenizer 'json:", path("tokenizer.json"), "' --json --score '", path("words.jsonl"), "'"));
  // Of bos, the space that the tokenizer puts before a text, "1P", and the line end with "3": without a second space.
  const Tokens tokens{5, 0, 17, 48, 234, 19};
  const io::Json answer = answer_to(concat(base(), "--tokens '", in_words(tokens), "' --new 0 --json --logits"));
  const auto logits = answer["logits"].get<std::vector<std::vector<double>>>();
  double loss = 0;
  for (const std::size_t at : {4U, 5U}) {
    double sum = 0;
    for (const double logit : logits[at - 1]) sum += std::exp(logit);
    loss += std::log(sum) - logits[at - 1][static_cast<std::size_t>(tokens[at])];
  }
  EXPECT_NEAR(std::log(found["perplexity"].get<double>()), loss, 1e-5);
}

TEST_F(TunedModels, score_bits_of_the_bytes_that_are_judged) {
  write("short.txt", "7373373737");
  write("tokenizer.json", json_of_bytes());
  for (const std::string& tokenizer : {std::string("bytes"), concat("json:", path("tokenizer.json"))}) {
    for (const char* const context : {"2", "3", "11", "20"}) {
      SCOPED_TRACE(tokenizer + " " + context);
      const io::Json found = answer_to(concat(base(), "--tokenizer '", tokenizer, "' --score '", path("short.txt"),
                                              "' --context ", context, " --json"));
      // A token is a byte, so bits of a byte are bits of a token.
      EXPECT_NEAR(found["bits_per_byte"].get<double>(), found["loss"].get<double>() / std::log(2.0), 1e-9);
    }
  }
}

TEST(ReefGenerate, streams_numbers_as_it_computes_them) {
  const Ending ending = generate(model("llama_grouped") + "--tokens '5 17 80 33 90 2 61' --new 10 --temperature 0");
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_EQ(ending.output, "90 66 92 51 54 18 29 32 61 90\n");
}

TEST(ReefGenerate, refuses_by_name) {
  const auto refuses = [](const std::string& options, int status, const std::string& why) {
    const Ending ending = generate(options);
    EXPECT_EQ(ending.status, status) << options << '\n' << ending;
    EXPECT_EQ(ending.output, "");
    EXPECT_THAT(ending.errors, HasSubstr(why)) << options;
  };
  const std::string one = model("llama_grouped");
  refuses("--tokens 1", 2, "--model is required");
  refuses(one, 2, "--prompt: is missing");
  refuses(one + "--prompt a --tokens 1", 2, "--tokens: is given beside --prompt");
  refuses(one + "--tokens 1 --logits", 2, "--logits: are written with --json alone");
  refuses(one + "--tokens 1 --weights fp8", 2, "--weights");
  refuses(one + "--tokens 1 --kv nf4", 2, "--kv");
  refuses(one + "--tokens 1 --top-p 0", 2, "--top-p");
  refuses(one + "--tokens 1 --tokenizer words", 2, "--tokenizer: 'words' is none of these");
  refuses(one + "--tokens '1 x'", 2, "'x' is no token's number");
  refuses(one + "--tokens ''", 2, "prompt 1 has no token");
  refuses(one + "--tokens 1 --tokens '1 5000'", 2, "prompt 2 has token 5000, but the model has ");
  refuses(one + "--tokens 1 --new 1000000", 2, "but the model is made for");
  refuses(one + "--tokens '1 2 3' --context 2", 2, "a prompt has 3 tokens, which leaves no room: a text has at most 2");
  refuses(one + "--tokens '1 2 3' --context 2 --new 4", 2, "a text would have 7 tokens, 3 of a prompt and 4 new ones, but --context is 2");
  refuses(one + "--tokens 1 --context 3 --new 10", 2, "a text would have 11 tokens");
  refuses(concat(one, "--ignore-eos --score ", REEF_TEST_DATA, "/small_merges.txt"), 2, "--ignore-eos: is of a prompt");
  const std::string text = concat("--tokenizer bytes --score ", REEF_TEST_DATA, "/small_merges.txt ");
  refuses(one + text + "--new 5", 2, "--new: is of a prompt");
  refuses(one + text + "--temperature 0.5", 2, "--temperature: is of a prompt");
  refuses(one + text + "--seed 3 --top-k 2", 2, "--top-k: is of a prompt");
  refuses(one + text, 2, "/small_merges.txt has token ");  // a byte that is no token of the model
  refuses(one + "--tokens 1 --context 1000000000", 2, "fix: --context 64, or less");
  refuses(one + "--tokens 1 --draft bigram", 2, "--draft: 'bigram' is neither ngram nor a folder");
  refuses(one + "--tokens 1 --draft-tokens 3", 2, "--draft-tokens requires --draft");
  refuses(one + "--tokens 1 --draft ngram --draft-tokens few", 2, "--draft-tokens: 'few' is not a whole number");
  refuses(one + "--tokens 1 --draft ngram --no-cache", 2, "--draft: is given beside --no-cache");
  refuses(concat(one, "--draft ngram --score ", REEF_TEST_DATA, "/small_merges.txt"), 2, "--draft: is of a prompt");
  refuses(concat(one, "--tokens 1 --draft ", REEF_TEST_DATA, "/bloom_alibi"), 2, "the draft has 41 tokens, the model 97");
  refuses(one + "--tokens 1 --beams 2 --temperature 1", 2, "--beams: is given beside --temperature");
  refuses(one + "--tokens 1 --beams 2 --draft ngram", 2, "--beams: is given beside --draft");
  refuses(one + "--tokens 1 --beams 2 --json --logits", 2, "--beams: is given beside --logits");
  refuses(one + "--tokens 1 --beams 0", 2, "--beams");
  refuses(one + "--tokens 1 --beams 1000", 2, "beams is 1000");
  refuses(one + "--tokens 1 --length-penalty 0", 2, "--length-penalty requires --beams");
  refuses("--model /nowhere --tokens 1", 1, "/nowhere/config.json");
}

}  // namespace
}  // namespace reef::test
