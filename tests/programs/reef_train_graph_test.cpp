// reef-train --graph as a user runs it, and reef-plan sub-dags beside it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "reef_train_job.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string graphs = REEF_ROOT "/examples/graphs/";

class ReefTrainGraph : public ReefTrainFolder {
protected:
  ReefTrainGraph() { write("text.txt", story(400)); }

  [[nodiscard]] Ending train(int ranks, const std::string& options) const {
    return run_ranks(REEF_TEST_MPIEXEC, ranks,
                     REEF_TRAIN " --data " + path("text.txt") + " --lr 0.01 --threads 1 --prompt-bytes 0 --eval-tokens 600 " + options);
  }
  /// The losses of the steps, and the one that is held out: every bit counts.
  [[nodiscard]] std::vector<double> losses(int ranks, const std::string& options) const {
    std::filesystem::remove(path("m"));
    const Ending ending = train(ranks, options + " --metrics " + path("m"));
    EXPECT_EQ(ending.status, 0) << ending;
    std::vector<double> found;
    for (const io::Json& line : lines("m")) {
      found.push_back(line.at(line.contains("summary") ? "validation_loss" : "loss").get<double>());
    }
    EXPECT_GT(found.size(), 1U) << options;
    return found;
  }
  void refused(const std::string& options, const std::string& why) const {
    const Ending ending = train(1, options);
    EXPECT_NE(ending.status, 0) << options;
    EXPECT_THAT(ending.errors, HasSubstr(why)) << options;
    EXPECT_THAT(ending.errors, HasSubstr("fix: ")) << options;
    EXPECT_THAT(ending.errors, Not(HasSubstr("held-out loss:"))) << options;
  }
  /// The same of what needs no ranks to be seen.
  void refused_at_once(const std::string& options, const std::string& why) const {
    const Ending ending = run_command(std::string(REEF_TRAIN) + " --data " + path("text.txt") + " " + options);
    EXPECT_EQ(ending.status, 2) << options;
    EXPECT_THAT(ending.errors, HasSubstr(why)) << options;
  }
  /// branches.json, changed.
  template <class Change>
  [[nodiscard]] std::string changed(const Change& change) const {
    io::Json json = io::read_json(graphs + "branches.json");
    change(json);
    write("changed.json", json.dump());
    return "--graph " + path("changed.json");
  }
};

TEST_F(ReefTrainGraph, of_a_gpt_has_the_bits_of_the_gpt_of_the_command_line) {
  const std::string gpt = "--model 2x4x64 --context 64 --batch 8 ";
  const std::string file = "--graph " + graphs + "gpt.json ";
  const auto whole = losses(1, gpt + "--steps 3");
  EXPECT_EQ(losses(1, file + "--steps 3"), whole);
  EXPECT_EQ(losses(2, file + "--steps 3 --recipe zero1"), losses(2, gpt + "--steps 3 --recipe zero1"));
  const std::string stages = "--steps 3 --recipe dtfm --stages 2 --micro-batches 2 ";
  EXPECT_EQ(losses(2, file + stages), losses(1, gpt + "--steps 3 --micro-batches 2"));
}

TEST_F(ReefTrainGraph, of_branches_learns_the_same_on_stages_and_makes_text) {
  const std::string file = "--graph " + graphs + "branches.json --steps 12 --micro-batches 2 ";
  const auto whole = losses(1, file + "--prompt-bytes 10");
  EXPECT_LT(whole[11], whole[0] - 1);
  EXPECT_EQ(losses(2, file + "--recipe dtfm --stages 2"), whole);
  const Ending sample = train(1, "--graph " + graphs + "branches.json --steps 1 --prompt the --prompt-bytes 5");
  EXPECT_EQ(sample.status, 0);
  EXPECT_THAT(sample.output, HasSubstr("---\nthe"));
  EXPECT_THAT(sample.errors, HasSubstr("model: 70464 parameters, " + graphs + "branches.json, context 64"));
}

TEST_F(ReefTrainGraph, operators_are_trained_as_the_file_says_and_the_command_line_comes_first) {
  const std::string plain = changed([](io::Json& json) { json["nodes"][0].erase("optimizer"); });
  const auto slower = losses(1, "--graph " + graphs + "branches.json --steps 3");
  EXPECT_NE(losses(1, plain + " --steps 3"), slower);
  EXPECT_EQ(losses(1, plain + " --steps 3 --group 'tokens.weight:0.5:0' --group 'embedding.wpe.weight:0.5:0'"), slower);
  EXPECT_EQ(losses(1, "--graph " + graphs + "branches.json --steps 3 --group '*:1'"), losses(1, plain + " --steps 3 --group '*:1'"));
  refused(changed([](io::Json& json) { json["nodes"][0]["optimizer"]["rule"] = "sgd"; }), "this optimizer has adamw");
}

TEST_F(ReefTrainGraph, resumes_to_the_bits_of_the_undisturbed_run_and_refuses_another_model) {
  const std::string file = "--graph " + graphs + "branches.json ";
  const std::string run = "--steps 6 --checkpoint " + path("run") + " --checkpoint-every 3 ";
  const auto whole = losses(2, file + run);
  std::filesystem::remove_all(path("run/step-000000006"));
  const auto rest = losses(2, changed([](io::Json& json) { json["about"] = "in other words"; }) + " --resume " + run);
  EXPECT_EQ(rest, std::vector<double>(whole.begin() + 3, whole.end()));
  std::filesystem::remove_all(path("run/step-000000006"));
  refused(changed([](io::Json& json) { json["nodes"][1]["attributes"] = {{"epsilon", 1e-3}}; }) + " --resume " + run,
          "the checkpoint was written with another --graph: a model with the hash ");
  refused("--model 2x4x64 --context 64 --batch 8 --resume " + run, "the checkpoint was written with another --graph");
}

TEST_F(ReefTrainGraph, refuses_models_and_options_that_cannot_be) {
  const std::string file = "--graph " + graphs + "branches.json ";
  for (const char* const option : {"--model 1x1x8", "--context 8", "--batch 2", "--dropout 0.1", "--export w.safetensors"}) {
    refused_at_once(file + option, "with --graph the file says what is trained");
  }
  const auto swapped = [](io::Json& json) { std::swap(json["inputs"][0], json["inputs"][1]); };
  refused_at_once(changed(swapped), "its input 0 is 'targets' (8, 64) int32");
  refused_at_once(changed([](io::Json& json) { json["inputs"].push_back({{"name", "angles"}, {"shape", {8}}}); }), "it has 3 inputs");
  refused_at_once(changed([](io::Json& json) { json.erase("loss"); }), "it has no loss");
  refused_at_once(changed([](io::Json& json) { json["nodes"][2]["kind"] = "Liner"; }), "did you mean 'Linear'?");
  refused_at_once(changed([](io::Json& json) { json["nodes"][2]["inputs"] = {"logits"}; }), "is in a cycle");
  refused(changed([](io::Json& json) {
            json["nodes"][0]["attributes"]["vocabulary"] = 100;
            json["nodes"][11]["attributes"]["features"] = 100;
          }),
          "its operator 'embedding' has vectors for 100 tokens, and --tokenizer bytes has 256");
  const Ending silent = train(1, changed([](io::Json& json) {
                                   json["nodes"][11].erase("outputs");
                                   json["nodes"][12]["inputs"][0] = "head";
                                 }) + " --steps 1 --prompt-bytes 5");
  EXPECT_EQ(silent.status, 0) << silent;
  EXPECT_THAT(silent.errors, HasSubstr("no sample: "));
}

TEST_F(ReefTrainGraph, sends_between_stages_what_sub_dags_says) {
  const std::string file = graphs + "branches.json";
  ASSERT_EQ(losses(2, "--graph " + file + " --recipe dtfm --stages 2 --micro-batches 3 --steps 2").size(), 3U);
  const Ending planned = run_command(std::string(REEF_PLAN) + " sub-dags " + file + " --stages 2");
  ASSERT_EQ(planned.status, 0) << planned;
  const io::Json ranks = io::parse_json(planned.output, "answer").at("ranks");
  const auto bytes = [&](std::size_t rank, const char* way) {
    std::uint64_t sum = 0;
    for (const io::Json& message : ranks.at(rank).at(way).at("sends")) sum += message.at("bytes").get<std::uint64_t>();
    return sum;
  };
  const io::Json links = lines("m").at(1).at("links");
  EXPECT_GT(bytes(0, "forward"), 0U);
  EXPECT_EQ(links.at("activation").at("raw_bytes"), 3 * bytes(0, "forward"));
  EXPECT_EQ(links.at("activation_gradient").at("raw_bytes"), 3 * bytes(1, "backward"));
  EXPECT_EQ(links.at("gradient").at("raw_bytes"), bytes(1, "tied_gradients"));
  EXPECT_EQ(links.at("parameter").at("raw_bytes"), bytes(0, "tied_weights"));
}

}  // namespace
}  // namespace reef::test
