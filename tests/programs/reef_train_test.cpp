// reef-train as a user runs it: real jobs on a small text, and the files that they leave.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/token_shards.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/manifest.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/gpt2_config.hpp>
#include <reef/trace/detail/html.hpp>
#include <reef/trace/report.hpp>

#include "reef_train_job.hpp"

namespace reef::test {

namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::ContainsRegex;
using testing::HasSubstr;

}  // namespace

TEST_F(ReefTrain, leaves_metrics_a_trace_a_report_and_weights) {
  const Ending ending = train(2, "--recipe zero1 --steps 12 --prompt 'the ' --metrics " +
                                     path("m.jsonl") + " --trace " + path("t.json") + " --report " +
                                     path("r.html") + " --export " + path("w.safetensors"));
  ASSERT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("held-out loss:"));
  EXPECT_THAT(ending.output, HasSubstr("the "));

  const auto metrics = lines("m.jsonl");
  ASSERT_EQ(metrics.size(), 13U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(metrics[i].at("step"), i + 1);
    EXPECT_EQ(metrics[i].at("tokens"), (i + 1) * 2 * 4 * 16);
    for (const char* key :
         {"seconds", "loss", "compute_s", "communication_s", "exposed_s", "tokens_per_s"}) {
      EXPECT_TRUE(metrics[i].at(key).is_number()) << key;
    }
    if (i == 0) continue;
    EXPECT_GT(metrics[i].at("seconds"), metrics[i - 1].at("seconds"));
  }
  EXPECT_LT(metrics[11].at("loss"), metrics[0].at("loss"));
  for (const char* channel : {"gradient", "parameter"}) {
    const io::Json& link = metrics[5].at("links").at(channel);
    EXPECT_GT(link.at("wire_bytes"), 0) << channel;
    EXPECT_GT(link.at("ratio"), 0.9) << channel;
    EXPECT_LE(link.at("ratio"), 1) << channel;
    EXPECT_EQ(link.at("error"), 0) << channel;
    EXPECT_EQ(link.at("wire_bytes"), metrics[6].at("links").at(channel).at("wire_bytes")) << "each step the same";
  }
  const io::Json& summary = metrics[12];
  ASSERT_FALSE(summary.at("links").empty());
  EXPECT_TRUE(summary.at("links").at(0).contains("channel"));
  EXPECT_THAT(ending.errors, HasSubstr("links, of all ranks:\nchannel"));
  EXPECT_THAT(io::read_file(path("r.html"), 64_MiB), HasSubstr("What links carried"));
  EXPECT_EQ(summary.at("summary"), true);
  EXPECT_FALSE(summary.contains("step"));
  EXPECT_FALSE(summary.contains("loss"));
  EXPECT_EQ(summary.at("micro_batches"), io::Json({1, 1}));
  EXPECT_EQ(summary.at("final_loss"), metrics[11].at("loss"));
  for (const char* key : {"validation_loss", "tokens_per_s", "overlap", "peak_device_bytes"}) {
    EXPECT_TRUE(summary.at(key).is_number()) << key;
  }

  const io::Json trace = io::read_json(path("t.json"));
  EXPECT_GT(trace.at("traceEvents").size(), 12U * 5U);
  EXPECT_GT(std::filesystem::file_size(path("r.html")), 4000U);
  EXPECT_EQ(tensors("w.safetensors").size(), 16U);
  const nn::GptConfig config = nn::read_gpt2_config(path("config.json"));
  EXPECT_EQ(config.layers, 1);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.channels, 16);
  EXPECT_EQ(config.vocabulary, 256);
  EXPECT_EQ(config.context, 16);
}

TEST_F(ReefTrain, leaves_the_config_json_that_an_export_finds_or_says_that_it_is_of_another_model) {
  const std::string command = "--steps 1 --export " + path("model.safetensors");
  nn::write_gpt2_config(
      path("config.json"),
      {.layers = 1, .heads = 2, .channels = 16, .vocabulary = 256, .context = 16});
  const std::string own = io::read_file(path("config.json"), 1_MiB) + "\n\n";
  io::write_atomically(path("config.json"), own);
  EXPECT_EQ(train(1, command).status, 0);
  EXPECT_EQ(io::read_file(path("config.json"), 1_MiB), own);
  std::filesystem::remove(path("model.safetensors"));

  const auto refuses = [&] {
    const Ending ending = train(2, command);
    EXPECT_NE(ending.status, 0);
    EXPECT_THAT(ending.errors, HasSubstr("config.json is not of this model"));
    EXPECT_FALSE(std::filesystem::exists(path("model.safetensors")));
  };
  nn::write_gpt2_config(
      path("config.json"),
      {.layers = 1, .heads = 4, .channels = 16, .vocabulary = 256, .context = 16});
  refuses();
  io::write_atomically(path("config.json"), "{\"model_type\": \"llama\"}");
  refuses();
}

/// A tensor's numbers, by its name.
std::vector<float> numbers_of(const io::SafetensorsFile& file, const std::string& name) {
  for (const io::StoredTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    std::vector<float> numbers(static_cast<std::size_t>(tensor.bytes()) / sizeof(float));
    file.read(tensor, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

TEST_F(ReefTrain, says_what_codecs_lose_and_records_the_messages_of_a_step) {
  const std::string plain = "--recipe dtfm --micro-batches 2 --steps 3 --compress activations=top-k:4 "
                            "--compress activation-gradients=bf16 --metrics ";
  ASSERT_EQ(train(2, plain + path("plain")).status, 0);
  const Ending ending = train(2, plain + path("m") + " --measure-error --record-edges 2:" + path("e.safetensors"));
  ASSERT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("wrote " + path("e.rank-0.safetensors")));
  const auto metrics = lines("m");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(metrics[i].at("loss"), lines("plain")[i].at("loss")) << i;
  EXPECT_TRUE(lines("plain")[1].at("links").at("activation").at("error").is_null()) << "nobody measured it";

  double all = 0, lost = 0;
  const io::SafetensorsFile ahead(path("e.rank-0.safetensors"));
  std::uint64_t tensors = 0;
  for (const io::StoredTensor& tensor : ahead.tensors()) {
    if (!tensor.name.ends_with(", before")) continue;
    const std::vector<float> before = numbers_of(ahead, tensor.name);
    const std::vector<float> after = numbers_of(ahead, tensor.name.substr(0, tensor.name.size() - 6) + "after");
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t k = 0; k < before.size(); ++k) {
      EXPECT_TRUE(after[k] == before[k] || after[k] == 0) << tensor.name;
      all += before[k] * static_cast<double>(before[k]);
      lost += std::pow(static_cast<double>(before[k]) - after[k], 2);
    }
    ++tensors;
  }
  EXPECT_EQ(numbers_of(ahead, "activation 0, micro-batch 1, before").size(), 4U * 16U * 16U);
  const io::Json& activations = metrics[1].at("links").at("activation");
  EXPECT_EQ(activations.at("messages"), tensors);
  EXPECT_NEAR(activations.at("error").get<double>(), std::sqrt(lost / all), 1e-6);
  EXPECT_GT(activations.at("ratio"), 2);
  EXPECT_GT(metrics[1].at("links").at("activation_gradient").at("ratio"), 1.8);
  const io::SafetensorsFile back(path("e.rank-1.safetensors"));
  for (const io::StoredTensor& tensor : back.tensors()) EXPECT_TRUE(tensor.name.starts_with("activation gradient ")) << tensor.name;

  const std::string compressed = "--steps 3 --recipe zero1 --compress gradients=bf16 --record-edges ";
  refused(2, compressed + "0:" + path("x"), "is not STEP:FILE");
  refused(2, compressed + path("x"), "is not STEP:FILE");
  refused(2, compressed + "4:" + path("x"), "step 4 is not among the 3 of --steps");
  refused(2, compressed + "1:" + path("nowhere/x"), "nowhere");
  refused(1, compressed + "1:" + path("x"), "there is one rank");
  refused(2, "--steps 3 --record-edges 1:" + path("x"), "is of what codecs make of messages");
  refused(2, "--steps 3 --measure-error", "is of what codecs make of messages");
}

TEST_F(ReefTrain, plans_ratios_again_and_repeats_a_run_from_its_metrics) {
  const std::string adapted = "--recipe dtfm --micro-batches 2 --steps 4 --compress activations=top-k:4 --one-mask --adapt-ratios ";
  const Ending measured = train(2, adapted + "--replan-ratios 2 --metrics " + path("measured"));
  ASSERT_EQ(measured.status, 0) << measured;
  EXPECT_THAT(measured.errors, HasSubstr("ratios planned after step 0 of "));
  const auto before = lines("measured");
  const auto& ratios = before[0].at("ratios");
  EXPECT_EQ(ratios.at("step"), 0);
  EXPECT_GT(ratios.at("by_edge")[0], 1) << "the one link is the slowest";
  const Ending replayed = train(2, adapted + "--replay-ratios " + path("measured") + " --metrics " + path("replayed"));
  ASSERT_EQ(replayed.status, 0) << replayed;
  const auto behind = lines("replayed");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(before[i].at("loss"), behind[i].at("loss")) << i;
  EXPECT_EQ(behind[0].at("ratios"), ratios);
  refused(2, adapted, "--network");
  refused(2, "--recipe dtfm --replan-ratios 2", "is of --adapt-ratios");
  refused(2, adapted + "--replay-ratios " + path("nowhere"), "nowhere");
  ASSERT_EQ(train(2, "--recipe dtfm --steps 1 --metrics " + path("other")).status, 0);
  refused(2, adapted + "--replay-ratios " + path("other"), "no ratios are in");
}

TEST_F(ReefTrain, takes_the_options_of_a_plan_unless_they_are_given) {
  write("plan.json", R"({"options": {"--recipe": "dtfm", "--stages": "2", "--pipeline": "gpipe", "--place": "1,0",
                                      "--micro-batches": "2", "--compress": ["activations=top-k:4"], "--one-mask": true}})");
  const std::string rest = " --steps 2 --metrics ";
  ASSERT_EQ(train(2, "--plan " + path("plan.json") + rest + path("planned")).status, 0);
  const std::string same = "--recipe dtfm --stages 2 --pipeline gpipe --place 1,0 --micro-batches 2 "
                           "--compress activations=top-k:4 --one-mask";
  ASSERT_EQ(train(2, same + rest + path("given")).status, 0);
  ASSERT_EQ(train(2, "--plan " + path("plan.json") + " --compress activations=top-k:2" + rest + path("other")).status, 0);
  EXPECT_EQ(lines("planned")[1].at("loss"), lines("given")[1].at("loss"));
  EXPECT_NE(lines("planned")[1].at("loss"), lines("other")[1].at("loss"));
  write("wrong.json", R"({"options": {"--stages": 2}})");
  refused(2, "--plan " + path("wrong.json"), "no option with a text");
  write("larger.json", R"({"ranks": 3, "options": {"--recipe": "ddp"}})");
  refused(2, "--plan " + path("larger.json"), "is for 3 ranks, and there are 2");
  write("empty.json", "{}");
  refused(2, "--plan " + path("empty.json"), "options");
  refused(2, "--recipe dtfm --place 0,0", "permutation");
  EXPECT_EQ(train(2, "--recipe dtfm --steps 1 --place 01,00").status, 0) << "as `seq -w` writes them";
  refused(2, "--recipe dtfm --place 010,0", "ranks");
}

TEST_F(ReefTrain, ddp_zero1_and_atom_print_the_same_losses) {
  for (const char* recipe : {"ddp", "zero1", "atom"}) {
    const Ending ending =
        train(3, std::string("--steps 5 --recipe ") + recipe + " --metrics " + path(recipe));
    ASSERT_EQ(ending.status, 0) << ending;
  }
  const auto a = lines("ddp");
  for (const char* other : {"zero1", "atom"}) {
    const auto b = lines(other);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(a[i].at("loss"), b[i].at("loss")) << other;
  }
}

TEST_F(ReefTrain, muon_gives_the_same_losses_sharded_and_swapped_and_others_than_adamw) {
  for (const char* recipe : {"zero1", "atom"}) {
    const Ending ending = train(2, std::string("--steps 5 --rule muon --group '*.bias:0.5:0' --recipe ") + recipe +
                                       " --metrics " + path(recipe));
    ASSERT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, ContainsRegex(" whole matrices[,;] (ranks have [0-9]+%, [0-9]+% of the work|all on every rank)"));
  }
  ASSERT_EQ(train(2, "--steps 5 --recipe zero1 --metrics " + path("adamw")).status, 0);
  const auto sharded = lines("zero1");
  const auto swapped = lines("atom");
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(sharded[i].at("loss"), swapped[i].at("loss"));
  EXPECT_NE(sharded[4].at("loss"), lines("adamw")[4].at("loss"));
}

TEST_F(ReefTrain, a_rule_or_a_group_that_cannot_be_is_refused) {
  const auto refused = [&](const std::string& options, const char* why) {
    const Ending ending = train(1, "--steps 1 " + options);
    EXPECT_NE(ending.status, 0) << options;
    EXPECT_THAT(ending.errors, HasSubstr(why)) << options;
  };
  refused("--recipe acco --rule muon", "muon is of --recipe zero1, atom or diloco, not of acco");
  refused("--recipe ddp --rule adam", "--rule");
  for (const char* group : {"*.bias", ":0.5", "*:", "*:x", "*:1:", "*:1:2:3", "*:-1"}) {
    refused(concat("--group '", group, "'"), "is not PATTERN:FACTOR");
  }
  refused("--group 'nobody.*:0.5'", "no parameter is in the group 'nobody.*'");
}

TEST_F(ReefTrain, atom_is_planned_by_a_profile_for_a_device_that_is_too_small) {
  const std::string small = "--steps 3 --micro-batches 2 --model 4x2x32 --profile " +
                            path("profile") +
                            " --recipe atom --device-link 1 --device-memory 900000 --metrics ";
  const Ending early = train(2, small + path("early"));
  EXPECT_NE(early.status, 0);
  EXPECT_THAT(early.errors, HasSubstr("would measure beside each other"));
  const Ending first = train(1, small + path("first") + " --report " + path("report"));
  ASSERT_EQ(first.status, 0) << first;
  EXPECT_THAT(first.errors, HasSubstr("atom on 1 rank\n"));
  EXPECT_THAT(first.errors, HasSubstr("swapped: "));
  EXPECT_THAT(first.errors, HasSubstr("profile: wrote "));
  EXPECT_THAT(io::read_file(path("report"), 64_MiB), HasSubstr("1 rank, 3 steps"));
  EXPECT_THAT(io::read_file(path("report"), 64_MiB), HasSubstr("segment 1 is on the device"));
  const Ending again = train(1, small + path("again"));
  EXPECT_THAT(again.errors, testing::Not(HasSubstr("profile: wrote ")));
  const Ending stays =
      train(1, "--steps 3 --micro-batches 2 --model 4x2x32 --metrics " + path("stays"));
  ASSERT_EQ(stays.status, 0) << stays;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines("first")[i].at("loss"), lines("stays")[i].at("loss"));
    EXPECT_EQ(lines("again")[i].at("loss"), lines("stays")[i].at("loss"));
  }
  const Ending another =
      train(1, "--steps 1 --model 3x2x32 --recipe atom --device-memory 900000 --profile " +
                   path("profile"));
  EXPECT_NE(another.status, 0);
  EXPECT_THAT(another.errors, HasSubstr("the profile is of another model"));
}

TEST_F(ReefTrain, diloco_learns_in_each_way_of_synchronising_and_leaves_a_line_a_step) {
  struct Case {
    const char* overlap;
    std::size_t steps;
    std::string told;  // what the weights at the end lack, if a longer run would lack less
  };
  // Fragments are due 2 and 5 steps after a round began. Beside a step the first leaves after 42, so 43
  // steps lack 3, the least. Of eager outer steps the second travels beside the third step of a
  // round.
  for (const auto& [overlap, steps, told] :
       {Case{"none", 41,
             "4 steps, since their outer step comes later. fix: --steps 42, where it is 2"},
        Case{"mix", 43, ""},
        Case{"eager", 41,
             "6 steps, since their outer step comes later. fix: --steps 43, where it is 3"}}) {
    const Ending ending =
        train(2, concat("--recipe diloco --sync-every 5 --fragments 2 --steps ", steps,
                        " --overlap ", overlap, " --precision ",
                        overlap == "mix"s ? "bf16" : "fp32", " --metrics ", path(overlap)));
    ASSERT_EQ(ending.status, 0) << ending;
    const auto metrics = lines(overlap);
    ASSERT_EQ(metrics.size(), steps + 1);
    const std::string warning = "not all weights at the end will have the last ";
    EXPECT_EQ(ending.errors.find(warning) == std::string::npos, told.empty()) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(told.empty() ? told : warning + told));
    for (std::size_t i = 0; i < steps; ++i) {
      EXPECT_EQ(metrics[i].at("step"), i + 1);
      EXPECT_EQ(metrics[i].at("tokens"), (i + 1) * 2 * 4 * 16);
    }
    const double first = metrics[0].at("loss");
    EXPECT_LT(metrics[steps].at("validation_loss"), 0.8 * first) << overlap;
    EXPECT_EQ(metrics[steps].at("final_loss"), metrics[steps - 1].at("loss"));
  }
  const Ending ending = train(2, "--recipe diloco --sync-every 5 --fragments 6");
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("6 fragments every 5 steps"));
}

TEST_F(ReefTrain, sparse_learns_and_goes_on_with_what_it_has_not_sent_yet) {
  const std::string sparse = "--recipe sparse --sync-every 5 --divisor senders --clip-median --decay 0.9 ";
  const Ending ending = train(2, sparse + "--steps 40 --metrics " + path("whole"));
  ASSERT_EQ(ending.status, 0) << ending;
  const auto whole = lines("whole");
  ASSERT_EQ(whole.size(), 41U);
  const double first = whole[0].at("loss");
  EXPECT_LT(whole[40].at("validation_loss"), 0.92 * first);  // of 8 outer steps, of 1 in 64 differences
  const std::string kept = sparse + "--checkpoint " + path("kept");
  const Ending half = train(2, kept + " --steps 40 --checkpoint-every 12 --metrics " + path("half"));
  ASSERT_EQ(half.status, 0) << half;
  std::filesystem::remove_all(path("kept") + "/step-000000040");
  std::filesystem::remove_all(path("kept") + "/step-000000036");
  const Ending rest = train(2, kept + " --steps 40 --resume --metrics " + path("rest"));
  ASSERT_EQ(rest.status, 0) << rest;
  EXPECT_EQ(lines("rest").back().at("validation_loss"), whole[40].at("validation_loss"));
}

TEST_F(ReefTrain, acco_takes_micro_batches_as_it_is_told_and_says_how_many) {
  const Ending fixed =
      train(2, "--recipe acco --accumulate fixed:2 --steps 3 --metrics " + path("fixed"));
  ASSERT_EQ(fixed.status, 0) << fixed;
  EXPECT_EQ(lines("fixed")[3].at("micro_batches"), io::Json({4, 4}));
  EXPECT_EQ(lines("fixed")[2].at("tokens"), 3 * 8 * 4 * 16);

  const Ending capped = train(2,
                              "--recipe acco --accumulate cap:3 --sampler shared --steps 6 "
                              "--metrics " +
                                  path("capped") + " --report " + path("r.html"));
  ASSERT_EQ(capped.status, 0) << capped;
  const io::Json counts = lines("capped")[6].at("micro_batches");
  ASSERT_EQ(counts.size(), 2U);
  for (const io::Json& count :
       counts) {  // in each phase one to three, those of the prologue beside
    EXPECT_GE(count.get<double>(), 2);
    EXPECT_LE(count.get<double>(), 6.5);
  }
  std::ifstream page(path("r.html"));
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(page), {}),
              HasSubstr("micro-batches a step, by rank"));
}

TEST_F(ReefTrain, bf16_trains_as_fp32_does_but_for_its_rounding) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Ending ending = train(2, std::string("--recipe zero1 --steps 40 --precision ") +
                                       precision + " --metrics " + path(precision));
    ASSERT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(concat(" a device, ", precision, ", ")));
  }
  const auto wide = lines("fp32");
  const auto narrow = lines("bf16");
  for (std::size_t i = 0; i < 40; ++i) {
    const double loss = wide[i].at("loss");
    EXPECT_NEAR(narrow[i].at("loss"), loss, 0.02 * loss) << "after step " << i + 1;
  }
  EXPECT_NE(narrow[39].at("loss"), wide[39].at("loss"));
  EXPECT_LT(narrow[39].at("loss"), 0.8 * static_cast<double>(narrow[0].at("loss")));
  EXPECT_LT(narrow[40].at("peak_device_bytes"), wide[40].at("peak_device_bytes"));
}

TEST_F(ReefTrain, a_resumed_run_ends_with_the_weights_of_the_undisturbed_one) {
  ASSERT_EQ(train(2, "--steps 8 --export " + path("whole.safetensors")).status, 0);
  // The schedule counts steps, so the first half has the same number of them in mind.
  const std::string half = "--steps 8 --checkpoint " + path("run") +
                           " --checkpoint-every 4 --metrics " + path("metrics") + " --report " +
                           path("report.html");
  ASSERT_EQ(train(2, half).status, 0);
  std::filesystem::remove_all(path("run/step-000000008"));
  const Ending resumed = train(2, half + " --resume --export " + path("resumed.safetensors"));
  ASSERT_EQ(resumed.status, 0) << resumed;
  EXPECT_THAT(resumed.errors, HasSubstr("resume: after step 4"));
  EXPECT_EQ(tensors("resumed.safetensors"), tensors("whole.safetensors"));
  const auto metrics = lines("metrics");  // those of steps 5 to 8 are of the second run alone
  ASSERT_EQ(metrics.size(), 9U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(metrics[i].at("step"), i + 1);
    EXPECT_EQ(metrics[i].at("tokens"), (i + 1) * 2 * 4 * 16);
  }
  EXPECT_EQ(metrics[8].at("summary"), true);
}

TEST_F(ReefTrain, a_resumed_runs_figures_are_those_of_its_own_steps) {
  const std::string command = "--steps 30 --checkpoint " + path("run") +
                              " --checkpoint-every 10 --metrics " + path("m") + " --report " +
                              path("r.html");
  ASSERT_EQ(train(2, command).status, 0);
  for (const char* later : {"run/step-000000020", "run/step-000000030"})
    std::filesystem::remove_all(path(later));
  const Clock::time_point begin = Clock::now();
  const Ending resumed = train(2, command + " --resume");
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  ASSERT_EQ(resumed.status, 0) << resumed;

  const auto metrics = lines("m");
  ASSERT_EQ(metrics.size(), 31U);
  const double in_all = metrics[29].at("seconds");
  const double seconds = in_all - metrics[9].at("seconds").get<double>();
  EXPECT_DOUBLE_EQ(metrics[30].at("tokens_per_s"), 20 * 2 * 4 * 16 / seconds);
  double computed = 0;
  double communicated = 0;
  double exposed = 0;
  for (std::size_t i = 10; i < 30; ++i) {
    computed += metrics[i].at("compute_s").get<double>();
    communicated += metrics[i].at("communication_s").get<double>();
    exposed += metrics[i].at("exposed_s").get<double>();
  }
  EXPECT_NEAR(metrics[30].at("overlap"), 1 - exposed / communicated, 1e-9);

  // The page says the same, to as many digits as it shows; its curve and its tokens are of all steps.
  const std::string page = io::read_file(path("r.html"), 4_MiB);
  const double tokens = 30 * 2 * 4 * 16;
  using trace::detail::compact;
  EXPECT_THAT(page, HasSubstr("<b>" + compact(tokens) + "</b><span>tokens</span>"));
  EXPECT_THAT(page, HasSubstr("<b>" + compact(tokens / in_all) + "</b><span>tokens/s</span>"));
  const std::string mean = "<td>mean</td>";
  const std::size_t row = page.find(mean);
  ASSERT_NE(row, std::string::npos);
  std::vector<double> cells;
  for (std::size_t at = row + mean.size(); cells.size() < 5; at = page.find("</td>", at) + 5)
    cells.push_back(std::stod(page.substr(at + std::string("<td>").size(), 20)));
  const double digit = 0.00051;
  EXPECT_NEAR(cells[1], computed, digit);
  EXPECT_NEAR(cells[2], communicated, digit);
  EXPECT_NEAR(cells[4], exposed, digit);
  EXPECT_LE(cells[0], took);
  EXPECT_GE(cells[0], computed + exposed - 3 * digit);
}

TEST_F(ReefTrain, a_new_run_refuses_a_directory_with_checkpoints_of_another) {
  const std::string command = " --checkpoint " + path("run");
  ASSERT_EQ(train(2, "--steps 4" + command).status, 0);
  const Ending second = train(2, "--steps 2" + command + " --metrics " + path("m"));
  EXPECT_NE(second.status, 0);
  EXPECT_THAT(second.errors, HasSubstr("--checkpoint " + path("run") +
                                       " holds another run's checkpoint, after step 4"));
  EXPECT_THAT(second.errors, HasSubstr("fix: --resume to go on from it, another directory"));
  EXPECT_EQ(io::read_file(path("m"), 1_MiB), "");
  EXPECT_FALSE(std::filesystem::exists(path("run/step-000000002")));
}

TEST_F(ReefTrain, a_resume_where_there_is_no_checkpoint_says_so_and_puts_other_metrics_aside) {
  ASSERT_EQ(train(1, "--steps 3 --metrics " + path("m")).status, 0);
  const std::string before = io::read_file(path("m"), 1_MiB);
  io::write_atomically(path("m.1"), "of somebody else");
  const Ending ending =
      train(1, "--steps 2 --resume --checkpoint " + path("run") + " --metrics " + path("m"));
  ASSERT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("resume: no complete checkpoint in " + path("run") +
                                       ", starting at step 1"));
  EXPECT_THAT(ending.errors, HasSubstr("those of an earlier run are now in "));
  EXPECT_EQ(io::read_file(path("m.2"), 1_MiB), before);
  EXPECT_EQ(io::read_file(path("m.1"), 1_MiB), "of somebody else");
  const auto metrics = lines("m");
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[0].at("step"), 1);
  EXPECT_EQ(metrics[2].at("summary"), true);
}

TEST_F(ReefTrain, a_finished_run_that_is_resumed_changes_no_file_and_can_still_be_exported) {
  const std::string command = " --checkpoint " + path("run") + " --metrics " + path("m") +
                              " --trace " + path("t.json") + " --report " + path("r.html");
  ASSERT_EQ(train(2, "--steps 4 --export " + path("w.safetensors") + command).status, 0);
  const auto files = [this] {
    std::vector<std::string> texts;
    for (const char* file : {"m", "t.json", "r.html"})
      texts.push_back(io::read_file(path(file), 16_MiB));
    return texts;
  };
  const auto before = files();
  for (const char* steps : {"4", "2"}) {
    const Ending ending = train(2, std::string("--resume --prompt 'the ' --steps ") + steps +
                                       " --export " + path("again.safetensors") + command);
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors,
                HasSubstr(std::string("no step to take: there are 4 of --steps ") + steps));
    EXPECT_THAT(ending.errors, HasSubstr(" after 4 steps"));
    EXPECT_THAT(ending.output, HasSubstr("\nthe "));
    EXPECT_THAT(ending.errors, testing::Not(HasSubstr("wrote " + path("m"))));
    EXPECT_TRUE(files() == before) << "with --steps " << steps;
    EXPECT_EQ(tensors("again.safetensors"), tensors("w.safetensors"));
    std::filesystem::remove(path("again.safetensors"));
  }
}

TEST_F(ReefTrain, time_goes_on_where_a_run_is_resumed_and_what_is_left_counts_its_own_steps) {
  ASSERT_EQ(train(1, "--steps 4 --checkpoint " + path("run")).status, 0);
  const auto folder = io::checkpoint_folder(path("run"), 4);
  io::Manifest manifest = io::read_manifest(folder);
  EXPECT_GT(manifest.facts.at("user").at("seconds"), 0);
  double took = 0;  // of the run alone, and of its launcher
  const auto resumed_after = [&](double seconds) {
    manifest.facts["user"]["seconds"] = seconds;
    if (seconds == 0) manifest.facts["user"].erase("seconds");  // of before it was kept
    io::write_manifest(folder, manifest);
    const Clock::time_point begin = Clock::now();
    const Ending ending = train(1, "--resume --steps 8 --metrics " + path("m") + " --report " +
                                       path("r.html") + " --checkpoint " + path("run"));
    took = std::chrono::duration<double>(Clock::now() - begin).count();
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("step 5/8 "));
    EXPECT_THAT(ending.errors, ContainsRegex("  [0-9]:[0-9][0-9], [0-9]:[0-9][0-9] left"));
    std::filesystem::remove_all(io::checkpoint_folder(path("run"), 8));
    return lines("m");
  };
  auto metrics = resumed_after(5000);
  ASSERT_EQ(metrics.size(), 5U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GT(metrics[i].at("seconds"), 5000);
    EXPECT_LT(metrics[i].at("seconds"), 5000 + took);
  }
  EXPECT_GT(metrics[4].at("tokens_per_s"), 256 / took);  // of this run alone
  EXPECT_THAT(io::read_file(path("r.html"), 16_MiB), HasSubstr("<b>512</b><span>tokens</span>"));

  std::filesystem::remove(path("m"));
  metrics = resumed_after(0);
  ASSERT_EQ(metrics.size(), 5U);
  EXPECT_LT(metrics[3].at("seconds"), took);
}

TEST_F(ReefTrain, the_page_of_a_resumed_run_has_the_curve_from_the_first_step_on) {
  const std::string half = "--steps 60 --checkpoint " + path("run") +
                           " --checkpoint-every 30 --metrics " + path("m") + " --report " +
                           path("r.html");
  const auto points = [this] {
    const std::string page = io::read_file(path("r.html"), 16_MiB);
    return std::count(page.begin(), page.end(), 'L');
  };
  ASSERT_EQ(train(1, half).status, 0);
  const auto whole = points();
  std::filesystem::remove_all(io::checkpoint_folder(path("run"), 60));
  ASSERT_EQ(train(1, half + " --resume").status, 0);
  EXPECT_GT(points(), 0.8 * static_cast<double>(whole));
}

TEST_F(ReefTrain, a_resume_with_another_context_is_refused) {
  const std::string command = "--steps 2 --checkpoint " + path("run");
  ASSERT_EQ(train(1, command + " --export " + path("w.safetensors")).status, 0);
  const std::string from_file = " --init " + path("w.safetensors");
  const Ending first = train(1, "--steps 2 --checkpoint " + path("other") + from_file);
  ASSERT_EQ(first.status, 0) << first;
  const Ending ending = train(
      1, "--steps 4 --resume --context 8 --batch 4 --checkpoint " + path("other") + from_file);
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("with another --context"));
}

TEST_F(ReefTrain, a_job_whose_step_is_not_finite_leaves_what_it_did_until_then_and_no_weights) {
  for (const auto& [recipe, ranks] : {std::pair{"ddp", 2}, std::pair{"diloco", 1}}) {
    const Ending ending =
        train(ranks, std::string("--steps 20 --lr 1e17 --clip 0 --warmup 0 --recipe ") + recipe +
                         " --report " + path("r.html") + " --trace " + path("t.json") +
                         " --export " + path("w.safetensors"));
    EXPECT_NE(ending.status, 0);
    EXPECT_THAT(ending.errors, HasSubstr("is not finite"));
    const std::string trace = io::read_file(path("t.json"), 16_MiB);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_THAT(trace, HasSubstr(concat("rank ", rank)));
    EXPECT_GT(std::filesystem::file_size(path("r.html")), 4000U);
    EXPECT_FALSE(std::filesystem::exists(path("w.safetensors")));
    std::filesystem::remove(path("t.json"));
    std::filesystem::remove(path("r.html"));
  }
}

TEST_F(ReefTrain, a_rank_that_fails_waits_for_what_rank_0_writes) {
  const std::string failing = " --clip 0 --warmup 0 --trace " + path("t.json") + " --steps ";
  for (const char* end : {"20 --lr 1e17", "1 --lr 1e18"}) {  // in a step; after the last one
    ASSERT_EQ(::mkfifo(path("t.json").c_str(), 0600), 0);
    const int pipe = ::open(path("t.json").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GT(::fcntl(pipe, F_SETPIPE_SZ, 4096), 0);  // rank 0 waits for its reader
    std::string read;
    std::thread reader([&] {
      struct ::pollfd first {
        pipe, POLLIN, 0
      };
      if (::poll(&first, 1, 170'000) != 1) return;
      std::this_thread::sleep_for(1s);
      ::fcntl(pipe, F_SETFL, 0);
      std::string part(4096, ' ');
      for (::ssize_t got = 0; (got = ::read(pipe, part.data(), part.size())) > 0;)
        read.append(part, 0, static_cast<std::size_t>(got));
    });
    EXPECT_NE(train(3, failing + end).status, 0);
    reader.join();
    ::close(pipe);
    std::filesystem::remove(path("t.json"));
    EXPECT_GT(read.size(), 4096U) << end;
    EXPECT_GT(io::parse_json(read, "the trace").at("traceEvents").size(), 5U) << end;
  }
}

TEST_F(ReefTrain,
       weights_that_are_not_finite_after_the_last_step_are_told_after_all_that_is_known) {
  const Ending ending = train(2, "--steps 1 --lr 1e18 --clip 0 --warmup 0 --metrics " + path("m") +
                                     " --report " + path("r.html") + " --trace " + path("t.json") +
                                     " --export " + path("w.safetensors"));
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("the held-out loss after the last step is not finite"));
  const auto metrics = lines("m");
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[1].at("summary"), true);
  EXPECT_EQ(metrics[1].at("final_loss"), metrics[0].at("loss"));
  EXPECT_GT(io::read_json(path("t.json")).at("traceEvents").size(), 5U);
  EXPECT_GT(std::filesystem::file_size(path("r.html")), 4000U);
  EXPECT_FALSE(std::filesystem::exists(path("w.safetensors")));
}

TEST_F(ReefTrain, writes_its_files_to_pipes_whose_readers_see_one_end) {
  const std::vector<std::string> pipes{"t.json", "r.html", "w.safetensors"};
  std::string readers;
  for (const std::string& pipe : pipes) {
    ASSERT_EQ(::mkfifo(path(pipe).c_str(), 0600), 0);
    readers += "timeout 170 cat " + path(pipe) + " > " + path("read." + pipe) + " & ";
  }
  ASSERT_EQ(std::system(readers.c_str()),
            0);  // they are ended where the program never opens theirs
  const Ending ending = train(1, "--steps 2 --trace " + path(pipes[0]) + " --report " +
                                     path(pipes[1]) + " --export " + path(pipes[2]));
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_TRUE(becomes([&] { return processes_with(path(""), "cat").empty(); }));
  EXPECT_GT(io::read_json(path("read.t.json")).at("traceEvents").size(), 5U);
  EXPECT_GT(std::filesystem::file_size(path("read.r.html")), 4000U);
  EXPECT_EQ(tensors("read.w.safetensors").size(), 16U);
}

TEST_F(ReefTrain, starts_from_exported_weights) {
  ASSERT_EQ(train(1, "--steps 6 --export " + path("w.safetensors")).status, 0);
  const Ending ending =
      train(1, "--steps 1 --init " + path("w.safetensors") + " --metrics " + path("m"));
  ASSERT_EQ(ending.status, 0) << ending;
  EXPECT_LT(lines("m")[0].at("loss"), 5.0);

  // Shorter samples leave the file's positions as they are.
  const std::string from = "--steps 1 --lr 0 --init " + path("w.safetensors") + " ";
  ASSERT_EQ(train(2, from + "--context 8 --export " + path("again.safetensors")).status, 0);
  EXPECT_EQ(tensors("again.safetensors"), tensors("w.safetensors"));
  EXPECT_THAT(train(2, from + "--context 17").errors, HasSubstr("fix: --context 16"));
  EXPECT_THAT(train(1, from + "--model 1x2x18").errors, HasSubstr("the model's is fp32 (256, 18)"));
  nn::write_gpt2_config(
      path("config.json"),
      {.layers = 1, .heads = 4, .channels = 16, .vocabulary = 256, .context = 16});
  EXPECT_THAT(train(1, from).errors, HasSubstr("--model has 2 heads"));
  EXPECT_EQ(train(1, from + "--model 1x4x16").status, 0);
}

TEST_F(ReefTrain, trains_on_text_encoded_by_gpt2s_bpe_and_on_files_of_its_tokens_alike) {
  const std::string small = std::string(REEF_TEST_DATA) + "/small";
  std::filesystem::copy_file(small + "_vocab.json", path("vocab.json"));
  std::filesystem::copy_file(small + "_merges.txt", path("merges.txt"));
  const std::string gpt2 = " --tokenizer gpt2:" + path("");
  const std::string tiktoken = " --tokenizer tiktoken:" + small + ".tiktoken";

  // The text is cut as the program cuts it: the last tenth of its bytes is held out.
  const std::string text = io::read_file(path("text.txt"), 1_MiB);
  const std::size_t cut = text.size() - text.size() / 10;
  const auto tokenizer = data::BpeTokenizer::read_tiktoken(small + ".tiktoken");
  const auto training = tokenizer.encode(std::string_view(text).substr(0, cut));
  const auto held_out = tokenizer.encode(std::string_view(text).substr(cut));
  ASSERT_LT(training.size(), cut);
  const auto half = training.size() / 2;
  data::write_token_file(path("t_train_0.bin"), std::span(training).first(half));
  data::write_token_file(path("t_train_1.bin"), std::span(training).subspan(half));
  data::write_token_file(path("t_val.bin"), held_out);
  const std::string files =
      " --data " + path("t_val.bin") + " " + path("t_train_1.bin") + " " + path("t_train_0.bin");

  const auto run = [&](const std::string& source, const std::string& name) {
    const Ending ending =
        run_ranks(REEF_TEST_MPIEXEC, 2,
                  REEF_TRAIN " --model 1x2x16 --context 16 --batch 4 --lr 0.01 --prompt 'the quick' "
                             "--prompt-tokens 5 --steps 4 --metrics " +
                      path(name) + source);
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(std::to_string(training.size()) + " tokens to train on"));
    EXPECT_THAT(ending.errors, HasSubstr("vocabulary of 1257"));
    EXPECT_THAT(ending.errors, HasSubstr(" nats/token after 4 steps"));
    EXPECT_THAT(ending.output, HasSubstr("\nthe quick"));
    return lines(name);
  };
  const auto from_gpt2 = run(gpt2 + " --data " + path("text.txt"), "a");
  const auto from_tiktoken = run(tiktoken + " --data " + path("text.txt"), "b");
  const auto from_files = run(tiktoken + files, "c");
  ASSERT_EQ(from_gpt2.size(), 5U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(from_gpt2[i].at("loss"), from_tiktoken[i].at("loss"));
    EXPECT_EQ(from_files[i].at("loss"), from_tiktoken[i].at("loss"));
  }
  EXPECT_EQ(from_files[4].at("validation_loss"), from_tiktoken[4].at("validation_loss"));
  EXPECT_NEAR(from_files[0].at("loss").get<double>(), std::log(1257.0), 0.5);
}

TEST_F(ReefTrain, says_what_data_and_tokenizer_do_not_fit) {
  data::write_token_file(path("t.bin"), std::vector<std::int32_t>(1000, 1300));
  const std::string small = std::string(REEF_TEST_DATA) + "/small.tiktoken";
  const auto fails = [&](const std::string& options, const std::string& sentence) {
    const Ending ending = train(1, options);
    EXPECT_NE(ending.status, 0) << options;
    EXPECT_THAT(ending.errors, HasSubstr(sentence)) << options;
  };
  fails("--data " + path("t.bin"), "1 of 2 files are of tokens");
  fails("--tokenizer tiktoken:" + path("text.txt"), "text.txt', line 1: 'the' is no base64");
  fails("--tokenizer gpt2:" + path("none"), "vocab.json': No such file");
  fails("--tokenizer words", "'words' is none of bytes, gpt2:DIR");
  const auto fails_on_tokens = [&](const std::string& options, const std::string& sentence) {
    const Ending ending = run_ranks(REEF_TEST_MPIEXEC, 1,
                                    REEF_TRAIN " --data " + path("t.bin") + " " + options);
    EXPECT_NE(ending.status, 0) << options;
    EXPECT_THAT(ending.errors, HasSubstr(sentence)) << options;
  };
  fails_on_tokens("", "need the tokenizer that they were written with");
  fails_on_tokens("--tokenizer tiktoken:" + small,
                  "t.bin': token 0 is 1300, outside the vocabulary of 1257");
}

TEST_F(ReefTrain, trains_on_an_emulated_device_and_over_an_emulated_network_with_the_same_losses) {
  ASSERT_EQ(train(2, "--steps 3 --metrics " + path("plain")).status, 0);
  const Ending ending =
      train(2, "--steps 3 --device-memory 100000000 --device-link 2 --network " +
                   std::string(REEF_NETWORK_CASE) + " --metrics " + path("emulated"));
  ASSERT_EQ(ending.status, 0) << ending;
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(lines("plain")[i].at("loss"), lines("emulated")[i].at("loss"));
}

TEST_F(ReefTrain, a_slowed_rank_changes_no_loss) {
  ASSERT_EQ(train(2, "--steps 3 --metrics " + path("plain")).status, 0);
  const Ending ending = train(2, "--steps 3 --slow 1:3 --metrics " + path("slow"));
  ASSERT_EQ(ending.status, 0) << ending;
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(lines("plain")[i].at("loss"), lines("slow")[i].at("loss"));
}

TEST_F(ReefTrain, a_killed_rank_ends_the_job_in_a_moment_and_a_stopped_one_by_the_deadline) {
  for (const auto& [signal, deadline] : {std::pair{SIGKILL, 120}, std::pair{SIGSTOP, 5}}) {
    std::filesystem::remove(path("m"));
    Clock::time_point sent;
    std::thread killer([&, wanted = signal] {
      // A few steps into the run, one rank is hit.
      EXPECT_TRUE(becomes([&] { return lines("m").size() >= 5; }));
      const std::vector<int> ranks = processes_with(path("m"));
      ASSERT_GE(ranks.size(), 3U);
      sent = Clock::now();
      ::kill(ranks[1], wanted);
    });
    const Ending ending =
        train(3, concat("--steps 100000000 --deadline ", deadline, " --metrics ", path("m")));
    killer.join();
    const double after = std::chrono::duration<double>(Clock::now() - sent).count();
    EXPECT_NE(ending.status, 0);
    if (signal == SIGKILL) {
      EXPECT_LT(after, deadline) << "nobody waits for it:\n" << ending;
    } else {
      EXPECT_THAT(ending.errors, HasSubstr("is silent since"));
    }
  }
}

TEST_F(ReefTrain, says_what_is_wrong_with_the_command_line) {
  const auto refused = [&](const std::string& options, const std::string& text) {
    const Ending ending = run_command(std::string(REEF_TRAIN) + " " + options);
    EXPECT_EQ(ending.status, 2) << options << ": " << ending;
    EXPECT_THAT(ending.errors, HasSubstr(text));
  };
  refused("--recipe nonsense", "--recipe");
  refused("--model 4x4", "LAYERSxHEADSxCHANNELS");
  refused("--data /no/such/file", "--data");
  refused("--no-such-option", "no-such-option");
  refused("--steps -1", "--steps");
  refused("--batch 0", "--batch");
  refused("--lr nan", "--lr");
  refused("--threads 100000", "--threads");
  refused("--device-link -3", "--device-link");
  refused("--slow 3", "RANK:FACTOR");
  refused("--profile p.json", "--profile: is of --recipe atom, dtfm, fusion or reef, not of ddp");
  refused("--activations stash", "stash is of --recipe atom or reef, not of ddp");
  refused("--recipe acco --unit 2", "--unit: is of --recipe dtfm, fusion or reef, not of acco");
  refused("--recipe reef --precision bf16", "--precision: bf16 is of other recipes");
  refused("--non-finite ignore", "ignore goes with --clip 0");
  refused("--slow 0:0.5", "RANK:FACTOR");
  refused("--recipe acco --fragments 2", "--fragments: is of --recipe diloco or sparse, not of acco");
  refused("--checkpoint-every 5", "--checkpoint-every: needs --checkpoint DIR");
  refused("--resume", "--resume: needs --checkpoint DIR");
  refused("--metrics " + path("x") + " --trace " + path("./x"), "is the file of --metrics too");
  refused("--report " + path("x") + " --export " + path("x"), "is the file of --report too");
  refused("--recipe atom --report " + path("x") + " --profile " + path("x"),
          "is the file of --report too");
  refused("--recipe diloco --decay 0.9", "--decay: is of --recipe sparse, not of diloco");
  refused("--recipe sparse --outer-momentum 0.9", "--outer-momentum: is of --recipe diloco, not of sparse");
  refused("--recipe sparse --overlap eager", "eager is of --recipe diloco, not of sparse");
  refused("--recipe diloco --compress gradients=bf16", "--recipe sparse encodes that");
  refused("--recipe ddp --compress parameters=bf16", "parameters are sent where each rank updates a share");
  refused("--recipe atom --compress parameters=bf16", "gradients=CODEC, or --recipe zero1");
  refused("--recipe diloco --mix 0.5", "--mix: is of --overlap mix, not of none");
  refused("--recipe acco --micro-batches 2 --accumulate fixed:4", "give one of them");
  refused("--recipe acco --accumulate fixed:0", "is not adaptive, cap:M, fixed or fixed:N");
  const Ending help = run_command(std::string(REEF_TRAIN) + " --help");
  EXPECT_EQ(help.status, 0);
  for (const char* option :
       {"--recipe", "--network", "--device-memory", "--checkpoint-every", "--report"}) {
    EXPECT_THAT(help.output, HasSubstr(option));
  }
}

TEST_F(ReefTrain, what_cannot_be_written_to_standard_output_is_an_error) {
  const std::string job = "--data " + path("text.txt") +
                          " --model 1x2x16 --context 16 --batch 4 --steps 1 --prompt-bytes 20 "
                          "--export " +
                          path("w.safetensors");
  for (const std::string& words : {"--version"s, "--help"s, job}) {
    const Ending full = run_command(concat("sh -c '", REEF_TRAIN, " ", words, " > /dev/full'"));
    EXPECT_EQ(full.status, 1) << full;
    EXPECT_THAT(full.errors, HasSubstr("cannot write "));
    EXPECT_THAT(full.errors, HasSubstr("No space left on device"));
  }
  EXPECT_TRUE(std::filesystem::exists(path("w.safetensors"))) << "what is dear comes first";
}

TEST_F(ReefTrain, what_fails_on_the_way_ends_with_its_sentence_and_no_signal) {
  const auto fails = [&](int ranks, const std::string& options, const std::string& text) {
    const Ending ending = train(ranks, options);
    EXPECT_NE(ending.status, 0) << options;
    EXPECT_THAT(ending.errors, HasSubstr(text)) << options;
    EXPECT_THAT(ending.errors, testing::Not(HasSubstr("Signal:"))) << options;
  };
  fails(2, "--steps 2 --metrics /nonexistent/m", "cannot write '/nonexistent/m'");
  fails(2, "--steps 2 --export /nonexistent/w", "cannot write '/nonexistent/w'");
  fails(2, "--steps 2 --slow 2:3", "--slow names rank 2, there are 2");
  fails(2, "--steps 2 --init " + path("text.txt"), "text.txt");
  fails(2, "--steps 2 --checkpoint /proc/nope", "/proc/nope");
  fails(1, "--steps 20 --lr 1e17 --clip 0 --warmup 0", "is not finite");
}

TEST_F(ReefTrain, a_model_that_cannot_be_ends_with_a_sentence) {
  const Ending ending = train(1, "--model 1x3x16");
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("channels is 16.\n  fix: a multiple of heads"));
}

TEST_F(ReefTrain, a_model_that_does_not_fit_the_device_says_how_much_it_needs_and_what_for) {
  const Ending ending = train(1, "--device-memory 100000");
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("of device memory, of which there are 97.66 KiB"));
  EXPECT_THAT(ending.errors, HasSubstr("The largest storage is"));
}

}  // namespace reef::test
