// reef-train with ranks that do not do the same, jobs that share a directory, and runs that are resumed as others.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "support/same_bits.hpp"
#include "reef_train_job.hpp"

namespace reef::test {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class ReefTrainRanks : public ReefTrainFolder {
protected:
  ReefTrainRanks() {
    write("a.txt", story(400, 400));
    write("b.txt", story(400, 400, "cat"));
  }

  /// What every rank is started with.
  [[nodiscard]] static std::string program() {
    return std::string(REEF_TRAIN) +
           " --model 1x2x16 --context 16 --batch 4 --threads 1 --prompt-bytes 0 --steps 2 ";
  }
  [[nodiscard]] static std::string launcher() { return REEF_TEST_MPIEXEC; }

  /// A job of ranks with the same options.
  [[nodiscard]] Ending train(int ranks, const std::string& options) const {
    return run_ranks(launcher(), ranks, concat(program(), "--data ", path("a.txt"), " ", options));
  }
  /// A job of two ranks, each with options of its own.
  [[nodiscard]] Ending train(const std::string& first, const std::string& second) const {
    return run_ranks(launcher(), {{1, program() + first}, {1, program() + second}});
  }
  /// The same on one text.
  [[nodiscard]] Ending train_two(const std::string& first, const std::string& second) const {
    const std::string data = "--data " + path("a.txt") + " ";
    return train(data + first, data + second);
  }

  void expect_refused(const Ending& ending, const std::vector<std::string>& texts) const {
    EXPECT_NE(ending.status, 0) << ending;
    EXPECT_NE(ending.status, 124) << ending;
    for (const std::string& text : texts) EXPECT_THAT(ending.errors, HasSubstr(text));
    EXPECT_THAT(ending.errors, Not(HasSubstr("step 1/")));
  }

  [[nodiscard]] std::set<std::string> names_in(const std::string& folder) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder))) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
};

}  // namespace

TEST_F(ReefTrainRanks, options_that_cannot_be_are_told_once_and_not_by_each_rank) {
  const auto told_once = [&](const std::string& options, const std::string& text) {
    const Ending ending = train(3, options);
    expect_refused(ending, {text});
    const std::size_t first = ending.errors.find(text);
    ASSERT_NE(first, std::string::npos) << ending;
    EXPECT_EQ(ending.errors.find(text, first + 1), std::string::npos) << ending;
  };
  told_once("--lr x", "--lr: 'x' is not a number");
  told_once("--group a=b:c", "--group: 'a=b:c' is not");
  told_once("--init " + path("none"), "--init: File does not exist");
  told_once("--no-such-option", "--no-such-option");
  told_once("--network " + path("a.txt"), "a.txt");
  told_once("--export " + path("nowhere/x.safetensors"), "' does not exist");
}

TEST_F(ReefTrainRanks, options_that_differ_are_refused_by_name_with_both_values) {
  const auto refused = [&](const std::string& first, const std::string& second,
                           const std::string& text) {
    expect_refused(train_two(first, second),
                   {"rank 1 and rank 0 differ in their " + text, "fix: "});
  };
  // Of the training; of what rank 0 writes; of when ranks meet for it; of what it reads.
  refused("--lr 0.01", "--lr 0.02", "--lr: 0.01 on rank 0, 0.02 on rank 1");
  refused("--trace " + path("t"), "", "--trace: " + path("t") + " on rank 0, not given on rank 1");
  refused("--checkpoint " + path("c") + " --checkpoint-every 1", "--checkpoint " + path("c"),
          "--checkpoint-every: 1 on rank 0, at the end on rank 1");
  refused("", "--checkpoint " + path("c"), "--checkpoint: not given on rank 0");
  refused("--recipe zero1", "", "--recipe: zero1 on rank 0, ddp on rank 1");
  refused("--deadline 5", "--deadline 6", "--deadline: 5 on rank 0, 6 on rank 1");
  refused("", "--init " + path("a.txt"), "--init: not given on rank 0, " + path("a.txt"));
  // What looks like a number is a text where a text is wanted; a default that is a number is told as one.
  expect_refused(
      train_two("--prompt 0010 --steps 20 --warmup 3", "--prompt 10 --steps 20 --batch 5"),
      {"differ in their --prompt: 0010 on rank 0, 10 on rank 1",
       "differ in their --warmup: 3 on rank 0, 2 on rank 1",
       "differ in their --batch: 4 on rank 0, 5 on rank 1"});
  EXPECT_FALSE(fs::exists(path("c")));
  EXPECT_FALSE(fs::exists(path("t")));
}

TEST_F(ReefTrainRanks, options_that_mean_the_same_are_the_same_however_they_are_written) {
  const std::string into = "--checkpoint " + path("c") + " --data " + path("a.txt");
  const Ending ending =
      train(into + " --steps 20 --warmup 2 --checkpoint-every 20 --lr 3e-3 --context 064",
            into + " --steps 020 --context 64 --batch 4 --model 01x2x16");
  EXPECT_EQ(ending.status, 0) << ending;
}

TEST_F(ReefTrainRanks, ranks_may_have_threads_memory_and_links_of_their_own) {
  const auto bits = [&](const std::string& first, const std::string& second,
                        const std::string& both) {
    const std::string file = path("w.safetensors");
    std::error_code none;
    fs::remove(file, none);
    const std::string all =
        "--model 1x2x64 --context 32 --batch 8 --export " + file + " " + both + " ";
    const Ending ending = train_two(all + first, all + second);
    EXPECT_EQ(ending.status, 0) << first << " : " << second << '\n' << ending;
    return ending.status == 0 ? tensors("w.safetensors") : decltype(tensors("")){};
  };
  const auto undisturbed = bits("", "", "");
  ASSERT_FALSE(undisturbed.empty());
  EXPECT_EQ(bits("--device-memory 100000000", "--threads 3 --device-link 1", ""), undisturbed);
  // A plan of how the model passes through the device's memory is one that all have room for.
  const std::string swapped = "--recipe atom --precision bf16";
  EXPECT_EQ(bits("--device-memory 4000000 --device-link 1", "--threads 3", swapped),
            bits("", "", swapped));
}

/// With two versions of the weights every stage is one update behind, as one stage is.
TEST_F(ReefTrainRanks, updates_within_a_step_over_stages_are_those_of_one_stage) {
  const std::string within = "--recipe dtfm --micro-batches 4 --dropout 0.1 --non-finite ignore --clip 0 --export " +
                             path("w.safetensors") + " --pipeline ";
  const auto weights = [&](int ranks, const std::string& pipeline) {
    const Ending ending = train(ranks, within + pipeline);
    EXPECT_EQ(ending.status, 0) << ending;
    return ending.status == 0 ? tensors("w.safetensors") : decltype(tensors("")){};
  };
  const auto alone = weights(1, "2bw --micro-batches-per-update 2");
  EXPECT_EQ(weights(2, "2bw"), alone);
  EXPECT_NE(weights(2, "pipedream"), alone) << "which updates behind each micro-batch";
  expect_refused(train(2, "--recipe dtfm --pipeline pipedream"), {"--non-finite ignore"});
}

TEST_F(ReefTrainRanks, a_model_over_stages_trains_to_the_weights_of_one_rank) {
  const auto weights = [&](int ranks, const std::string& options) {
    const Ending ending =
        train(ranks, "--micro-batches 3 --dropout 0.1 --export " + path("w.safetensors") + " " + options);
    EXPECT_EQ(ending.status, 0) << ending;
    return ending.status == 0 ? tensors("w.safetensors") : decltype(tensors("")){};
  };
  const auto alone = weights(1, "--recipe zero1");
  EXPECT_EQ(weights(2, "--recipe dtfm"), alone);
  EXPECT_EQ(weights(2, "--recipe dtfm --pipeline zb-h1"), alone) << "backwards in halves";
  EXPECT_EQ(weights(2, "--recipe dtfm --pipeline searched"), alone);
  const auto narrow = weights(1, "--recipe zero1 --precision bf16");
  EXPECT_EQ(weights(2, "--recipe dtfm --precision bf16 --pipeline zb-v"), narrow);
  write("order.txt", "F0 F1 F2 B0 B1 B2\nF0 B0 F1 F2 B1 B2\n");
  EXPECT_EQ(weights(2, "--recipe dtfm --order " + path("order.txt")), alone);
  EXPECT_EQ(weights(2, "--recipe dtfm --pipeline gpipe --prompt-bytes 4 --checkpoint " + path("c")), alone);
  EXPECT_EQ(weights(1, "--recipe dtfm --resume --checkpoint " + path("c")), alone)
      << "a checkpoint of two stages, on one rank that has no step left to take";
  expect_refused(train(2, "--recipe dtfm --stages 3"), {"--stages 3 on 2 ranks", "fix:"});
  expect_refused(train(2, "--recipe zero1 --stages 2"), {"--stages", "is of --recipe dtfm"});
  write("wrong.txt", "F0 B0\nB0 F0\n");
  expect_refused(train(2, "--recipe dtfm --micro-batches 1 --order " + path("wrong.txt")), {"B0"});
}

TEST_F(ReefTrainRanks, stages_laid_out_for_uneven_ranks_train_to_the_weights_of_one) {
  const auto job = [&](int ranks, const std::string& options) {
    return train(ranks, "--model 4x2x16 --micro-batches 3 --export " + path("w.safetensors") + " " + options);
  };
  const std::string fenced = "--recipe dtfm --layout op-fence ";
  ASSERT_EQ(job(1, "--recipe zero1").status, 0);
  const auto alone = tensors("w.safetensors");
  const Ending slow = job(2, fenced + "--slow 1:4");
  EXPECT_EQ(slow.status, 0) << slow;
  EXPECT_THAT(slow.errors, HasSubstr("stages: laid out for ranks of speed 1, 0.25;"));
  EXPECT_EQ(tensors("w.safetensors"), alone);
  // The first of three is a hundred times slower than the others, and links are fast.
  write("net.json", R"({"latency_ms": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
                        "bandwidth_gbps": [[0, 100, 100], [100, 0, 100], [100, 100, 0]],
                        "device_flops": [1e7, 1e9, 1e9]})");
  const Ending spare = job(3, fenced + "--network " + path("net.json"));
  EXPECT_EQ(spare.status, 0) << spare;
  EXPECT_THAT(spare.errors, AllOf(HasSubstr("speed 0.01, 1, 1;"), HasSubstr("without rank(s) 0 it would take ")));
  EXPECT_EQ(tensors("w.safetensors"), alone);
  expect_refused(job(2, fenced + "--pipeline zb-v"), {"--layout op-fence", "one for each stage", "fix:"});
  expect_refused(job(2, "--recipe zero1 --layout op-fence"), {"--layout", "is of --recipe dtfm"});
  write("short.json", R"({"latency_ms": [[0, 0], [0, 0]], "bandwidth_gbps": [[0, 1], [1, 0]], "device_flops": [1e9]})");
  expect_refused(job(2, fenced + "--network " + path("short.json")), {"device_flops has 1 numbers for 2 ranks"});
}

/// Without a codec of activations these recipes lose nothing.
TEST_F(ReefTrainRanks, recipes_of_several_axes_train_to_the_weights_of_one_rank_or_send_less) {
  const auto job = [&](int ranks, const std::string& options) {
    const Ending ending = train(ranks, "--model 3x2x16 --export " + path("w.safetensors") + " " + options);
    EXPECT_EQ(ending.status, 0) << ending;
    return std::pair{ending.status == 0 ? tensors("w.safetensors") : decltype(tensors("")){}, ending.errors};
  };
  const std::string as_it_is = " --compress activations=none --micro-batches 3 ";
  const auto synchronous = job(1, "--recipe zero1 --micro-batches 3").first;
  const auto overlapping = job(1, "--recipe acco --accumulate fixed:3").first;
  ASSERT_NE(synchronous, overlapping);
  const auto [fused, fused_text] = job(2, "--recipe fusion --slow 1:2" + as_it_is);
  EXPECT_TRUE(same_bits(fused, synchronous));
  EXPECT_THAT(fused_text, HasSubstr("stages: laid out for ranks of speed 1, 0.5;"));
  const std::string swapped = "--recipe reef --device-link 4" + as_it_is;
  const auto [planned, planned_text] = job(2, swapped + "--unit 2 --device-memory 500000");
  EXPECT_TRUE(same_bits(planned, overlapping));
  EXPECT_THAT(planned_text, HasSubstr("swapped: planning how the model passes through"));
  EXPECT_TRUE(same_bits(job(2, swapped + "--pipeline zb-h1 --activations stash").first, overlapping));
  EXPECT_TRUE(same_bits(job(1, swapped).first, overlapping));
  write("net.json", R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[0, 1], [1, 0]]})");
  for (const char* const recipe : {"fusion", "reef"}) {
    const auto shrunk = job(2, concat("--recipe ", recipe, " --micro-batches 3 --network ", path("net.json"), " --metrics ", path(recipe))).first;
    EXPECT_FALSE(shrunk == synchronous || shrunk == overlapping) << recipe;
    const io::Json links = lines(recipe)[1].at("links");
    EXPECT_GT(links.at("activation").at("ratio"), 5) << recipe;
    EXPECT_GT(links.at("activation_gradient").at("ratio"), 5) << recipe << ", by one mask";
  }
  expect_refused(train(2, "--recipe reef --pipeline 2bw --non-finite ignore --clip 0"), {"updates within a step", "fix:"});
  const auto [adapted, adapted_text] = job(2, "--recipe reef --micro-batches 2 --accumulate adaptive");
  EXPECT_FALSE(adapted_text.empty());
  expect_refused(train(2, "--recipe reef --accumulate adaptive --sampler shared"), {"a shared order", "fix:"});
}

TEST_F(ReefTrainRanks, what_one_rank_alone_throws_at_the_start_is_told_and_ends_the_job) {
  // The deadline is behind the limit of a command: it is not what ends the job.
  const std::string more = program() + "--deadline 1000 --data " + path("a.txt");
  expect_refused(
      run_ranks(launcher(), {{1, more}, {1, "env REEF_INSTRUCTION_SET=foo " + more}}),
      {"REEF_INSTRUCTION_SET is foo", "fix: sse2, avx2 or avx512"});
}

TEST_F(ReefTrainRanks, texts_and_weights_that_differ_are_refused_whatever_their_files_are_called) {
  expect_refused(train("--data " + path("a.txt"), "--data " + path("b.txt")),
                 {"rank 1 and rank 0 differ in their --data: " + path("a.txt"),
                  path("b.txt") + " (", "fix: start every rank with the same"});
  const std::string weights = path("w.safetensors");
  const std::string others = path("other/w.safetensors");
  fs::create_directory(path("other"));
  ASSERT_EQ(train(1, "--export " + weights).status, 0);
  ASSERT_EQ(train(1, "--seed 2 --export " + others).status, 0);
  expect_refused(train_two("--init " + weights, "--init " + others),
                 {"rank 1 and rank 0 differ in their --init: " + weights + " (checksum ",
                  others + " (checksum "});
  fs::copy_file(path("a.txt"), path("c.txt"));
  fs::copy_file(weights, path("other/copy.safetensors"));
  const Ending same = train("--data " + path("a.txt") + " --lr 1e-2 --init " + weights,
                            "--data " + path("c.txt") + " --lr 0.01 --steps 2 --threads 2 --init " +
                                path("other/copy.safetensors"));
  EXPECT_EQ(same.status, 0) << same;
}

TEST_F(ReefTrainRanks, directories_of_checkpoints_that_ranks_do_not_share_are_found_at_the_start) {
  expect_refused(
      train_two("--checkpoint " + path("c"), "--checkpoint " + path("d")),
      {"rank 1 does not see what rank 0 writes to its checkpoint directory, '" + path("c"),
       "rank 1 has '" + path("d"), "fix: give all ranks the same directory"});
  EXPECT_FALSE(fs::exists(path("c")) && !fs::is_empty(path("c")));
  fs::create_directory(path("c"));
  fs::create_directory_symlink(path("c"), path("link"));
  const Ending linked = train_two("--checkpoint " + path("c"), "--checkpoint " + path("link"));
  EXPECT_EQ(linked.status, 0) << linked;
  EXPECT_EQ(names_in("c"), std::set<std::string>{"step-000000002"});
}

TEST_F(ReefTrainRanks,
       a_second_job_is_refused_a_directory_until_the_first_has_ended_however_it_ends) {
  const std::string log = path("log");
  const std::string into = "--checkpoint " + path("run");
  // Without a launcher, so that its number is known.
  const std::string command = concat(program(), "--data ", path("a.txt"), " --steps 100000000 ",
                                     into, " --checkpoint-every 3 > ", log, " 2>&1");
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    ::_exit(127);
  }
  EXPECT_TRUE(becomes([&] { return !io::complete_checkpoints(path("run")).empty(); }))
      << io::read_file(log, 1_MiB);
  for (const char* more : {"", " --resume"}) {
    expect_refused(train(2, into + more),
                   {concat("another job writes to '", path("run"), "': process ", holder, " on '"),
                    "fix: wait for its end, or give another directory"});
  }
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(fs::exists(path("run/reef.lock")));
  const std::uint64_t last = io::complete_checkpoints(path("run")).back();
  fs::create_directory(io::checkpoint_folder(path("run"), last + 1));
  write_file(io::checkpoint_folder(path("run"), last + 1) / "model.safetensors.tmp.4242.0", "torn");
  const Ending resumed = train(2, concat(into, " --resume --steps ", last + 2));
  EXPECT_EQ(resumed.status, 0) << resumed;
  EXPECT_THAT(resumed.errors, HasSubstr(concat("resume: after step ", last)));
  EXPECT_FALSE(fs::exists(path("run/reef.lock")));
  EXPECT_FALSE(fs::exists(io::checkpoint_folder(path("run"), last + 1)));
}

TEST_F(ReefTrainRanks, a_resume_says_which_options_tokens_a_step_and_learning_rate_are_others) {
  const std::string into = "--lr 0.01 --warmup 1 --checkpoint " + path("run");
  ASSERT_EQ(train(2, into + " --steps 3").status, 0);
  const io::Json user = io::read_manifest(io::checkpoint_folder(path("run"), 3)).facts.at("user");
  EXPECT_EQ(user.at("options").at("--lr"), "0.01");
  EXPECT_EQ(user.at("options").at("--steps"), "3");

  const Ending more = train(1, into + " --resume --steps 5 --clip 0.5");
  EXPECT_EQ(more.status, 0) << more;
  EXPECT_THAT(
      more.errors,
      AllOf(HasSubstr(
                "options differ from the checkpoint's: --clip was 1, is 0.5; --steps was 3, is 5"),
            HasSubstr("a step has 64 tokens on 1 rank(s), it had 128 on 2"),
            HasSubstr(
                "the learning rate of step 4 is 0.0055, by the checkpoint's options it was to be "
                "0.001\n")));
  const Ending same = train(1, into + " --resume --steps 5 --clip 0.5 --metrics " + path("m"));
  EXPECT_EQ(same.status, 0) << same;
  EXPECT_THAT(same.errors, Not(HasSubstr("warning: ")));

  for (const auto& [option, text] :
       {std::pair<std::string, std::string>{"--batch 8", "another --batch: 4, this run has 8"},
        {"--seed 3", "another --seed: 1, this run has 3"},
        {"--model 1x1x16", "another --model: 1x2x16, this run has 1x1x16"},
        {"--precision bf16", "another --precision: fp32, this run has bf16"}}) {
    expect_refused(train(1, concat(into, " --resume --steps 9 --clip 0.5 ", option)),
                   {text, "fix: give the same"});
  }
}

TEST_F(ReefTrainRanks,
       a_resume_has_the_weights_of_its_checkpoint_and_their_shapes_of_the_same_file) {
  const std::string weights = path("w.safetensors");
  ASSERT_EQ(train(1, "--context 32 --export " + weights).status,
            0);  // more positions than are used below
  const std::string init = " --init " + weights;
  const std::string into = "--checkpoint " + path("run");
  const Ending begun = train(1, into + init);
  EXPECT_EQ(begun.status, 0) << begun;
  EXPECT_THAT(begun.errors, HasSubstr("weights: from " + weights));
  expect_refused(train(1, into + " --resume --steps 4"),
                 {"the checkpoint was written with another --init: checksum ",
                  ", this run has none.\n  fix: give the same"});
  const Ending resumed = train(1, into + init + " --resume --steps 4");
  EXPECT_EQ(resumed.status, 0) << resumed;
  EXPECT_THAT(resumed.errors,
              AllOf(HasSubstr("resume: after step 2"),
                    HasSubstr("weights: the checkpoint's, not those of --init " + weights),
                    Not(HasSubstr("weights: from ")), Not(HasSubstr("--init was"))));
  // Where there is no checkpoint yet, they are what the run begins with.
  const Ending first = train(1, "--resume --checkpoint " + path("new") + init);
  EXPECT_EQ(first.status, 0) << first;
  EXPECT_THAT(first.errors, HasSubstr("weights: from " + weights));
}

TEST_F(ReefTrainRanks, a_resume_says_that_the_processors_have_another_instruction_set) {
  if (device::best_instruction_set() == device::InstructionSet::baseline)
    GTEST_SKIP() << "this machine has one instruction set only";
  const auto run = [&](const std::string& set, int steps) {
    return run_ranks(launcher(), 1,
                     concat("env REEF_INSTRUCTION_SET=", set, " ", program(), "--resume --checkpoint ",
                            path("run"), " --data ", path("a.txt"), " --steps ", steps));
  };
  ASSERT_EQ(run("sse2", 2).status, 0);
  const Ending other = run("avx2", 3);
  EXPECT_EQ(other.status, 0) << other;
  EXPECT_THAT(other.errors,
              HasSubstr("warning: the instruction set of the processors is avx2, it was sse2"));
  EXPECT_THAT(run("avx2", 4).errors, Not(HasSubstr("instruction set")));
}

TEST_F(ReefTrainRanks, of_another_numerics_class_are_refused_by_name) {
  if (device::best_instruction_set() == device::InstructionSet::baseline)
    GTEST_SKIP() << "this machine has one instruction set only";
  const auto with = [&](const std::string& set) {
    return concat("env REEF_INSTRUCTION_SET=", set, " ", program(), " --data ", path("a.txt"), " --steps 2");
  };
  const Ending both = run_ranks(launcher(), {{1, with("sse2")}, {1, with("avx2")}});
  EXPECT_NE(both.status, 0) << both;
  EXPECT_THAT(both.errors, HasSubstr("differ in their instruction set of the processor: sse2 on rank 0, avx2 on rank 1"));
  EXPECT_THAT(both.errors, HasSubstr("differ in their numerics class: "));
}

}  // namespace reef::test
