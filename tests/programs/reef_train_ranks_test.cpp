// reef-train with ranks that do not do the same, jobs that share a directory, and runs that are resumed as others.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "reef_train_job.hpp"

namespace reef::test {

namespace {

using namespace std::chrono_literals;
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
    return run_command(
        concat(launcher(), " -n ", ranks, " ", program(), "--data ", path("a.txt"), " ", options));
  }
  /// A job of two ranks, each with options of its own.
  [[nodiscard]] Ending train(const std::string& first, const std::string& second) const {
    return run_command(launcher() + " -n 1 " + program() + first + " : -n 1 " + program() + second);
  }
  /// The same on one text.
  [[nodiscard]] Ending train_two(const std::string& first, const std::string& second) const {
    const std::string data = "--data " + path("a.txt") + " ";
    return train(data + first, data + second);
  }

  void expect_refused(const Ending& ending, const std::vector<std::string>& texts) const {
    EXPECT_NE(ending.status, 0) << ending.output;
    EXPECT_NE(ending.status, 124) << ending.output;
    for (const std::string& text : texts) EXPECT_THAT(ending.output, HasSubstr(text));
    EXPECT_THAT(ending.output, Not(HasSubstr("step 1/")));
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
          "--checkpoint-every: 1 on rank 0, not given on rank 1");
  refused("", "--checkpoint " + path("c"), "--checkpoint: not given on rank 0");
  refused("--recipe zero1", "", "--recipe: zero1 on rank 0, ddp on rank 1");
  refused("--deadline 5", "--deadline 6", "--deadline: 5 on rank 0, 6 on rank 1");
  refused("", "--init " + path("a.txt"), "--init: not given on rank 0, " + path("a.txt"));
  EXPECT_FALSE(fs::exists(path("c")));
  EXPECT_FALSE(fs::exists(path("t")));
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
  EXPECT_EQ(same.status, 0) << same.output;
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
  EXPECT_EQ(linked.status, 0) << linked.output;
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
  for (int tries = 0; tries < 600 && io::complete_checkpoints(path("run")).empty(); ++tries) {
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_FALSE(io::complete_checkpoints(path("run")).empty()) << io::read_file(log, 1_MiB);
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
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr(concat("resume: after step ", last)));
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
  EXPECT_EQ(more.status, 0) << more.output;
  EXPECT_THAT(
      more.output,
      AllOf(HasSubstr(
                "options differ from the checkpoint's: --clip was 1, is 0.5; --steps was 3, is 5"),
            HasSubstr("a step has 64 tokens on 1 rank(s), it had 128 on 2"),
            HasSubstr(
                "the learning rate of step 4 is 0.0055, by the checkpoint's options it was to be "
                "0.001\n")));
  const Ending same = train(1, into + " --resume --steps 5 --clip 0.5 --metrics " + path("m"));
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_THAT(same.output, Not(HasSubstr("warning: ")));

  for (const auto& [option, text] :
       {std::pair<std::string, std::string>{"--batch 8", "another --batch: 4, this run has 8"},
        {"--seed 3", "another --seed: 1, this run has 3"},
        {"--model 1x1x16", "another --model: 1x2x16, this run has 1x1x16"},
        {"--precision bf16", "another --precision: fp32, this run has bf16"}}) {
    expect_refused(train(1, concat(into, " --resume --steps 9 --clip 0.5 ", option)),
                   {text, "fix: give the same"});
  }
}

}  // namespace reef::test
