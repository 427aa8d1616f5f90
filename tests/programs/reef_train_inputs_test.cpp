// What reef-train reads: numbers of its command line, text, tokens, tokenizers and weights of others.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/units.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/token_file.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors.hpp>

#include "reef_train_job.hpp"

namespace reef::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string test_data = REEF_TEST_DATA;

class ReefTrainInputs : public ReefTrainFolder {
protected:
  ReefTrainInputs() : text_(story(200)) { write("text.txt", text_); }

  /// One rank with a model that trains in a moment.
  [[nodiscard]] static Ending train(const std::string& options) {
    return run_ranks(REEF_TEST_MPIEXEC, 1,
                     REEF_TRAIN " --model 1x2x32 --context 16 --batch 4 --threads 1 --prompt-bytes 0 " +
                         options);
  }
  static void refused(const std::string& options, const std::string& text) {
    const Ending ending = train(options);
    EXPECT_NE(ending.status, 0) << options;
    EXPECT_THAT(ending.errors, AllOf(HasSubstr(text), HasSubstr("fix: "))) << options;
  }
  /// What it says when it has taken a step.
  static std::string taken(const std::string& options) {
    const Ending ending = train("--steps 1 " + options);
    EXPECT_EQ(ending.status, 0) << options << ": " << ending;
    return ending.errors;
  }

  /// The loss of the first step, before weights change.
  double first_loss(const std::string& options) const {
    taken(options + " --metrics " + path("m.jsonl"));
    const auto loss = lines("m.jsonl").at(0).at("loss").get<double>();
    std::filesystem::remove(path("m.jsonl"));
    return loss;
  }

  /// Weights as the program exports them, their tensors by name.
  using Tensors = std::map<std::string, std::pair<Shape, std::vector<float>>>;
  [[nodiscard]] Tensors exported() const {
    taken("--data " + path("text.txt") + " --lr 0.1 --export " + path("w.safetensors"));
    std::filesystem::remove(path("config.json"));
    Tensors tensors;
    const io::SafetensorsFile file(path("w.safetensors"));
    for (const io::StoredTensor& stored : file.tensors()) {
      const auto& s = stored.shape;
      auto& [shape, values] = tensors[stored.name];
      shape = s.size() == 1 ? Shape{s[0]} : Shape{s[0], s[1]};
      values.resize(static_cast<std::size_t>(shape.size()));
      file.read(stored, std::as_writable_bytes(std::span(values)));
    }
    return tensors;
  }
  void write_tensors(const std::string& name, Tensors tensors) const {
    std::vector<io::NamedView> views;
    for (auto& [tensor, content] : tensors)
      views.push_back({tensor, {content.second.data(), content.first, Element::float32}});
    io::write_safetensors(path(name), views);
  }

  std::string text_;
};

TEST_F(ReefTrainInputs, numbers_are_what_a_person_reads) {
  const Ending ending =
      train("--data " + path("text.txt") + " --steps 010 --metrics " + path("m.jsonl"));
  ASSERT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("after 10 steps"));
  const auto refuses = [&](const std::string& option, const std::string& number) {
    const Ending refusal =
        run_command(std::string(REEF_TRAIN) + " " + option + " '" + number + "'");
    EXPECT_EQ(refusal.status, 2) << option << " " << number << ": " << refusal;
    EXPECT_THAT(refusal.errors, HasSubstr(option)) << number;
  };
  for (const char* number :
       {"0x10", "1e3", "10.5", " 10", "+10", "1_000", "99999999999999999999", "-1", "", "ten"})
    refuses("--steps", number);
  for (const char* option : {"--context", "--batch", "--micro-batches", "--warmup", "--seed",
                             "--threads", "--device-memory", "--checkpoint-every",
                             "--prompt-tokens", "--sync-every", "--fragments"}) {
    refuses(option, "0x10");
    refuses(option, "-1");
    refuses(option, "99999999999999999999");
  }
  for (const char* option : {"--lr", "--weight-decay", "--clip", "--dropout", "--deadline",
                             "--device-link", "--mix", "--outer-lr", "--outer-momentum"}) {
    refuses(option, "nan");
    refuses(option, "0x1p-3");
    if (std::string(option) != "--device-link") refuses(option, "0,5");  // which is a list
  }
  for (const char* shape : {"0x10x4x8", "4x4x1e2", "4x-4x8", "4x4x8 ", "4x4x99999999999999999999"})
    refuses("--model", shape);
  for (const char* list : {"0x1,0", "0,-1", "-1,0", "", "0,", ",0", "0,,1", "+1,0", "zero,one", "0;1", "0 1", "99999999999999999999"})
    refuses("--place", list);
  for (const char* list : {"8e6,", "8e6,0x10", "-1,8e6", "8e-1,1", "1.5,2", "8e6;4e6", "1e30,1", ""}) refuses("--device-memory", list);
  for (const char* list : {"1,0x10", "1,", "nan,1", "-1,1"}) refuses("--device-link", list);
  for (const char* option : {"--place '0,-1'", "--place ''", "--device-memory '1,-1'"}) {
    const std::string said = run_command(std::string(REEF_TRAIN) + " " + option).errors;
    EXPECT_LT(said.size(), 300U) << said;
  }
  for (const char* slow : {"0x1:2", "0:0x2", "0:inf", "1:2s", "-1:2", ":2", "0:"})
    refuses("--slow", slow);
  for (const char* accumulate : {"cap:0x8", "cap:-1", "fixed:4.0", "cap:+3", "cap:99999999999"})
    refuses("--accumulate", accumulate);
}

TEST_F(ReefTrainInputs, what_is_no_text_is_refused_by_what_it_is_unless_bytes_are_meant) {
  refused(std::string("--data ") + REEF_TRAIN, "it is no text, but a program (ELF)");
  refused("--data " + test_data + "/gpt2_head.safetensors", "tensors (.safetensors)");
  write("zeros.txt", text_ + std::string(10'000, '\0'));
  refused("--data " + path("zeros.txt"), "zeros or control characters");
  EXPECT_THAT(taken("--data-kind bytes --data " + path("zeros.txt")), HasSubstr("held-out loss"));
  refused("--data-kind bytes --tokenizer tiktoken:" + test_data + "/small.tiktoken --data " +
              path("zeros.txt"),
          "is of --tokenizer bytes");
  write("latin1.txt", text_ + "na\xefve caf\xe9\n");
  taken("--data " + path("latin1.txt"));
}

TEST_F(ReefTrainInputs, tokens_are_read_in_the_width_that_they_have) {
  const std::string tokenizer = "--tokenizer tiktoken:" + test_data + "/small.tiktoken ";
  const std::vector<std::int32_t> tokens =
      data::BpeTokenizer::read_tiktoken(test_data + "/small.tiktoken").encode(text_);
  data::write_token_file(path("a.bin"), tokens);
  const auto bytes = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(values[0]));
  };
  write("wide.bin", bytes(tokens));
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (" +
                       std::to_string(tokens.size()) + ",), }";
  header.resize(117, ' ');
  write("a.npy", std::string("\x93NUMPY\x01\0\x76\0", 10) + header + '\n' + bytes(tokens));
  const double loss = first_loss(tokenizer + "--data " + path("a.bin"));
  EXPECT_EQ(first_loss(tokenizer + "--data " + path("wide.bin")), loss);
  EXPECT_EQ(first_loss(tokenizer + "--data " + path("a.npy")), loss);
  EXPECT_THAT(taken(tokenizer + "--data " + path("wide.bin")),
              HasSubstr("wide.bin has tokens of 4 bytes, by its values"));
  write("long.bin", bytes(std::vector<std::int64_t>(tokens.begin(), tokens.end())));
  refused(tokenizer + "--data " + path("long.bin"), "8 bytes each");
  write("text.bin", text_);
  refused(tokenizer + "--data " + path("text.bin"), "it is text, no tokens");
  EXPECT_THAT(taken("--data-kind text --data " + path("text.bin")), HasSubstr("held-out loss"));
}

TEST_F(ReefTrainInputs, tokenizer_files_that_were_cut_are_refused) {
  std::filesystem::create_directory(path("gpt2"));
  const std::string merges = io::read_file(test_data + "/small_merges.txt", 1_MiB);
  write("gpt2/vocab.json", io::read_file(test_data + "/small_vocab.json", 1_MiB));
  write("gpt2/merges.txt", merges.substr(0, merges.rfind('\n', merges.size() / 2) + 1));
  refused("--tokenizer gpt2:" + path("gpt2") + " --data " + path("text.txt"),
          "tokens of the vocabulary, such as");
}

TEST_F(ReefTrainInputs, a_document_ends_with_the_token_that_one_names) {
  const auto trained_on = [&](const std::string& options) {
    const std::string said = taken(options);
    const std::string before = "text: ";
    const std::size_t at = said.find(before);
    if (at == std::string::npos) {
      ADD_FAILURE() << "no '" << before << "' in:\n" << said;
      return -1;
    }
    return std::atoi(said.c_str() + at + before.size());
  };
  const std::string bytes = "--data " + path("text.txt");
  write("more.txt", text_);
  const int one = trained_on(bytes);
  EXPECT_EQ(trained_on(bytes + " --document-end 0"), one + 1);
  EXPECT_EQ(trained_on(bytes + " --document-end '|'"), one + 1);
  EXPECT_EQ(trained_on(bytes + " --document-end 0 --data " + path("more.txt")), 2 * (one + 1));
  refused(bytes + " --document-end '<|endoftext|>'", "no token '<|endoftext|>'");
  refused(bytes + " --document-end 256", "a number from 0 to 255");

  // Three documents in one file, of which the last is held out in part.
  const std::string tokenizer = " --tokenizer tiktoken:" + test_data + "/small.tiktoken ";
  write("three.txt", "a\n<|endoftext|>\nb\n<|endoftext|>\r\n" + text_);
  const int with =
      trained_on("--data " + path("three.txt") + tokenizer + "--document-end '<|endoftext|>'");
  EXPECT_EQ(trained_on("--data " + path("three.txt") + tokenizer + "--document-end 1256"), with);
  const data::BpeTokenizer small = data::BpeTokenizer::read_tiktoken(test_data + "/small.tiktoken");
  const std::string whole = io::read_file(path("three.txt"), 1_MiB);
  const std::size_t begin = whole.size() - text_.size();
  const std::string last = whole.substr(begin, whole.size() - whole.size() / 10 - begin);
  EXPECT_EQ(with, static_cast<int>(2 * small.encode("a\n").size() + small.encode(last).size()) + 3);
  EXPECT_GT(trained_on("--data " + path("three.txt") + tokenizer), with) << "as its characters";
  EXPECT_THAT(taken("--data " + path("three.txt") + tokenizer),
              HasSubstr("read as its characters; --document-end '<|endoftext|>'"));
  data::write_token_file(path("a.bin"), small.encode(text_));
  refused("--data " + path("a.bin") + tokenizer + "--document-end 1256",
          "--document-end is of text");
}

TEST_F(ReefTrainInputs, weights_are_read_as_others_write_them) {
  const Tensors weights = exported();
  const auto starts = [&](const std::string& place) {
    return first_loss("--data " + path("text.txt") + " --init " + path(place));
  };
  const double loss = starts("w.safetensors");

  Tensors compiled;
  for (const auto& [name, content] : weights) compiled["_orig_mod." + name] = content;
  write_tensors("compiled.safetensors", compiled);
  EXPECT_EQ(starts("compiled.safetensors"), loss);

  Tensors padded = weights;
  auto& [shape, values] = padded.at("transformer.wte.weight");
  shape = Shape{304, 32};
  values.resize(304 * 32, 7.0F);
  write_tensors("padded.safetensors", padded);
  EXPECT_EQ(starts("padded.safetensors"), loss);
  EXPECT_THAT(taken("--data " + path("text.txt") + " --init " + path("padded.safetensors")),
              HasSubstr("the first 256 of its 304 tokens"));
  shape = Shape{255, 32};
  values.resize(255 * 32);
  write_tensors("short.safetensors", padded);
  refused("--data " + path("text.txt") + " --init " + path("short.safetensors"), "(255, 32)");

  std::filesystem::create_directory(path("folder"));
  std::vector<Tensors> parts(2);
  io::Json map;
  for (const auto& [name, content] : weights) {
    const std::size_t part = map.size() % 2;
    parts[part][name] = content;
    map[name] = part == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
  }
  write_tensors("folder/model-00001-of-00002.safetensors", parts[0]);
  write_tensors("folder/model-00002-of-00002.safetensors", parts[1]);
  write("folder/model.safetensors.index.json", io::Json{{"weight_map", map}}.dump());
  EXPECT_EQ(starts("folder"), loss);
  EXPECT_EQ(starts("folder/model.safetensors.index.json"), loss);
  const Ending lost = train("--data " + path("text.txt") + " --init " + path("folder") +
                            " --export " + path("folder/model-00001-of-00002.safetensors"));
  EXPECT_EQ(lost.status, 2);
  EXPECT_THAT(lost.errors, HasSubstr("is read by --init"));
  std::filesystem::remove(path("folder/model-00001-of-00002.safetensors"));
  refused("--data " + path("text.txt") + " --init " + path("folder"),
          "00001-of-00002.safetensors' is not there");

  refused("--context 17 --data " + path("text.txt") + " --init " + path("w.safetensors"),
          path("w.safetensors") + " has positions for 16 tokens.\n  fix: --context 16");
  const io::Json config{{"n_layer", 1}, {"n_embd", 32}, {"n_positions", 16}, {"vocab_size", 256}};
  const auto with_heads = [&](int heads) {
    io::Json all = config;
    all["n_head"] = heads;
    write("config.json", all.dump());
  };
  with_heads(0);
  refused("--data " + path("text.txt") + " --init " + path("w.safetensors"),
          path("config.json") + "': n_head is 0");
  with_heads(3);
  refused("--data " + path("text.txt") + " --init " + path("w.safetensors"),
          path("config.json") + "' is of no gpt(): ");
  std::filesystem::remove(path("config.json"));

  std::string integers = io::read_file(path("w.safetensors"), 1_MiB);
  for (std::size_t at = 0; (at = integers.find("\"F32\"", at)) != std::string::npos;)
    integers.replace(at, 5, "\"I32\"");
  write("integers.safetensors", integers);
  refused("--data " + path("text.txt") + " --init " + path("integers.safetensors"),
          "a dtype that is not read.\n  fix: write it again as F32, F16, BF16 or F64");

  Tensors broken = weights;
  broken.at("transformer.h.0.mlp.c_fc.weight").second[7] = NAN;
  write_tensors("nan.safetensors", broken);
  const Ending ending = train("--data " + path("text.txt") + " --init " + path("nan.safetensors"));
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors,
              AllOf(HasSubstr(path("nan.safetensors")),
                    HasSubstr("element 7 of tensor 'transformer.h.0.mlp.c_fc.weight'")));
}

}  // namespace
}  // namespace reef::test
