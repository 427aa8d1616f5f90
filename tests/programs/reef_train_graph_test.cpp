// reef-train --graph as a user runs it, and reef-plan sub-dags beside it.

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
    return run_command(std::string(REEF_TEST_MPIEXEC) + " -n " + std::to_string(ranks) + " " + REEF_TRAIN + " --data " +
                       path("text.txt") + " --lr 0.01 --threads 1 --prompt-bytes 0 --eval-tokens 600 " + options);
  }
  /// The losses of the steps, and the one that is held out: every bit counts.
  [[nodiscard]] std::vector<double> losses(int ranks, const std::string& options) const {
    std::filesystem::remove(path("m"));
    const Ending ending = train(ranks, options + " --metrics " + path("m"));
    EXPECT_EQ(ending.status, 0) << ending.output;
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
    EXPECT_THAT(ending.output, HasSubstr(why)) << options;
    EXPECT_THAT(ending.output, HasSubstr("fix: ")) << options;
    EXPECT_THAT(ending.output, Not(HasSubstr("held-out loss:"))) << options;
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
  EXPECT_THAT(sample.output, HasSubstr("model: 86848 parameters, " + graphs + "branches.json, context 64"));
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
    const Ending ending = train(1, file + option);
    EXPECT_EQ(ending.status, 2) << option;
    EXPECT_THAT(ending.output, HasSubstr("with --graph the file says what is trained")) << option;
  }
  const auto swapped = [](io::Json& json) { std::swap(json["inputs"][0], json["inputs"][1]); };
  refused(changed(swapped), "its input 0 is 'targets' (8, 64) int32");
  refused(changed([](io::Json& json) { json["inputs"].push_back({{"name", "angles"}, {"shape", {8}}}); }), "it has 3 inputs");
  refused(changed([](io::Json& json) { json.erase("loss"); }), "it has no loss");
  refused(changed([](io::Json& json) { json["nodes"][2]["kind"] = "Liner"; }), "did you mean 'Linear'?");
  refused(changed([](io::Json& json) { json["nodes"][2]["inputs"] = {"logits"}; }), "is in a cycle");
  refused(changed([](io::Json& json) {
            json["nodes"][0]["attributes"]["vocabulary"] = 100;
            json["nodes"][11]["attributes"]["features"] = 100;
          }),
          "its operator 'embedding' has vectors for 100 tokens, and --tokenizer bytes has 256");
  const Ending silent = train(1, changed([](io::Json& json) {
                                   json["nodes"][11].erase("outputs");
                                   json["nodes"][12]["inputs"][0] = "head";
                                 }) + " --steps 1 --prompt-bytes 5");
  EXPECT_EQ(silent.status, 0) << silent.output;
  EXPECT_THAT(silent.output, HasSubstr("no sample: "));
}

TEST_F(ReefTrainGraph, sends_between_stages_what_sub_dags_says) {
  const std::string file = graphs + "branches.json";
  const int steps = 2, micro_batches = 3;
  losses(2, "--graph " + file + " --recipe dtfm --stages 2 --micro-batches 3 --steps 2");
  const Ending planned = run_command(std::string(REEF_PLAN) + " sub-dags " + file + " --stages 2");
  ASSERT_EQ(planned.status, 0) << planned.output;
  const io::Json plan = io::parse_json(planned.output, "answer");
  double forward = 0, backward = 0;
  for (const io::Json& message : plan.at("ranks").at(0).at("forward").at("sends")) forward += message.at("bytes").get<double>();
  for (const io::Json& message : plan.at("ranks").at(1).at("backward").at("sends")) backward += message.at("bytes").get<double>();
  int found = 0;
  for (const io::Json& link : lines("m").back().at("links")) {
    const bool is_forward = link.at("channel") == "activation";
    if (!is_forward && link.at("channel") != "activation_gradient") continue;
    ++found;
    EXPECT_EQ(link.at("raw_bytes").get<double>(), steps * micro_batches * (is_forward ? forward : backward)) << link;
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace reef::test
