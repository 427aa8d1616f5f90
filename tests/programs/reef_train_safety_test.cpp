// What reef-train does so that nothing is lost: neither to its own outputs, nor to files that cannot be
// written, nor to whoever ends it early.

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/token_file.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/file.hpp>

#include "reef_train_job.hpp"

namespace reef::test {

namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr int stopped = 75;

class ReefTrainSafety : public ReefTrain {
protected:
  /// Refused with one sentence, before anything is opened.
  void refused(const std::string& options, const std::string& sentence) const {
    const Ending ending = run_command(std::string(REEF_TRAIN) + " --steps 1 " + options);
    EXPECT_EQ(ending.status, 2) << options << ": " << ending;
    EXPECT_THAT(ending.errors, HasSubstr(sentence)) << options;
  }

  [[nodiscard]] std::string text_of(const std::string& name) const {
    return io::read_file(path(name), 16_MiB);
  }

  /// A job that would go on for ever, of which `end` ends one process or more while it trains.
  template <class F>
  Ending interrupted(int ranks, const std::string& options, const F& end) const {
    std::thread sender([&] {
      if (becomes([&] { return lines("m").size() > 3; })) end();
    });
    const Ending ending =
        train(ranks, "--steps 100000000 --checkpoint " + path("run") + " --export " + path("w") +
                         " --metrics " + path("m") + " --trace " + path("t") + " --report " +
                         path("r") + " " + options);
    sender.join();
    return ending;
  }

  /// All that a run which was asked to stop leaves is there, and of one step.
  void left_all(const Ending& ending) const {
    EXPECT_EQ(ending.status, stopped) << ending;
    const auto steps = io::complete_checkpoints(path("run"));
    ASSERT_EQ(steps.size(), 1U) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(concat("stopping after step ", steps[0], ": signal ")));
    const auto metrics = lines("m");
    ASSERT_GE(metrics.size(), 2U);
    EXPECT_EQ(metrics[metrics.size() - 2].at("step"), steps[0]);
    EXPECT_EQ(metrics.back().at("summary"), true);
    EXPECT_EQ(tensors("w").size(), 16U);
    // All that a recording holds may be more than the usual limit of JSON.
    EXPECT_GT(io::read_json(path("t"), {.bytes = 1_GiB}).at("traceEvents").size(), 5U);
    EXPECT_GT(fs::file_size(path("r")), 4000U);
  }

  [[nodiscard]] std::vector<int> launcher() const {
    const std::string command = REEF_TEST_MPIEXEC;
    return processes_with(path("m"), command.substr(0, command.find(' ')));
  }
};

}  // namespace

TEST_F(ReefTrainSafety, an_output_that_is_an_input_is_refused_whatever_it_is_called) {
  const std::string before = text_of("text.txt");
  fs::create_symlink("text.txt", path("link"));
  fs::create_hard_link(path("text.txt"), path("hard"));
  fs::create_directory(path("folder"));
  fs::create_directory_symlink("..", path("folder/up"));
  const std::string data = "--data " + path("text.txt") + " ";
  for (const char* option : {"--metrics", "--trace", "--report", "--export", "--checkpoint"}) {
    for (const char* name : {"text.txt", "link", "hard", "folder/../text.txt", "folder/up/link"}) {
      refused(concat(data, option, " ", path(name)), "is read by --data, and would be lost");
    }
  }
  refused("--recipe atom " + data + "--profile " + path("text.txt") + " --trace " + path("hard"),
          "would be lost");
  refused(data + "--network " + path("link") + " --report " + path("hard"), "would be lost");
  for (const char* file : {"vocab.json", "merges.txt", "encoder.json", "vocab.bpe"}) {
    io::write_atomically(path(file), "{}");
    refused(data + "--tokenizer gpt2:" + path("folder/..") + " --trace " + path(file),
            "is read by --tokenizer");
  }
  refused(data + "--tokenizer tiktoken:" + path("vocab.bpe") + " --report " + path("vocab.bpe"),
          "is read by --tokenizer");
  // What is written in place of weights that are read, or beside them.
  io::write_atomically(path("w.safetensors"), "weights");
  io::write_atomically(path("config.json"), "{}");
  const std::string init = data + "--init " + path("w.safetensors");
  refused(init + " --export " + path("w.safetensors"), "is read by --init");
  refused(init + " --trace " + path("config.json"), "is read by --init");
  io::write_atomically(path("w.json"), "{\"weight_map\": {\"wte.weight\": \"part.safetensors\"}}");
  io::write_atomically(path("part.safetensors"), "weights");
  refused(data + "--init " + path("w.json") + " --export " + path("part.safetensors"),
          "is read by --init");
  fs::create_directory(path("model"));
  fs::copy_file(path("w.json"), path("model/model.safetensors.index.json"));
  for (const char* file : {"part.safetensors", "model.safetensors.index.json", "config.json"}) {
    refused(data + "--init " + path("model") + " --report " + path("model/") + file,
            "is read by --init");
  }
  fs::create_directory(path("run"));
  fs::create_symlink("../text.txt", path("run/reef.lock"));
  refused(data + "--checkpoint " + path("run"), "is read by --data, and would be lost");
  EXPECT_EQ(text_of("text.txt"), before);
  EXPECT_EQ(text_of("w.safetensors"), "weights");
  EXPECT_EQ(text_of("merges.txt"), "{}");
}

TEST_F(ReefTrainSafety, outputs_that_would_be_in_each_others_way_are_refused) {
  const std::string data = "--data " + path("text.txt") + " ";
  fs::create_symlink("later", path("dangling"));
  refused(data + "--metrics " + path("later") + " --trace " + path("dangling"),
          "is the file of --metrics too");
  refused(data + "--metrics " + path("run") + " --checkpoint " + path("run/"),
          "is the file of --metrics too");
  refused(data + "--metrics " + path("a") + " --checkpoint " + path("a/b"), "is to be a file");
  refused(data + "--metrics " + path("run/reef.lock") + " --checkpoint " + path("run"),
          "is the lock of --checkpoint");
  refused(data + "--metrics " + path("config.json") + " --export " + path("w"),
          "is the file of --metrics too");
  for (const char* name : {"run/step-000000001", "run/step-000000001/model.safetensors"}) {
    refused(data + "--checkpoint " + path("run") + " --export " + path(name),
            "lies in a checkpoint's folder");
  }
  fs::create_directories(path("run/step-000000001"));
  fs::copy_file(path("text.txt"), path("run/step-000000001/own.txt"));
  refused("--data " + path("run/step-000000001/own.txt") + " --checkpoint " + path("run"),
          "lies in a checkpoint's folder");
  EXPECT_FALSE(fs::exists(path("later")));
  EXPECT_FALSE(fs::exists(path("a")));
}

TEST_F(ReefTrainSafety, files_of_any_runs_checkpoint_are_no_place_for_an_output) {
  ASSERT_EQ(train(1, "--steps 2 --checkpoint " + path("run")).status, 0);
  const std::string folder = path("run/step-000000002");
  const std::string before = text_of("run/step-000000002/model.safetensors");
  fs::create_directory_symlink(folder, path("link"));
  fs::create_symlink(folder + "/model.safetensors", path("shard"));
  const std::string data = "--data " + path("text.txt") + " ";
  const auto all_refused = [&] {
    for (const std::string& file : {folder + "/model.safetensors", path("link/model.safetensors"),
                                    path("shard"), folder + "/new"})
      refused(data + "--export " + file, "lies in a checkpoint's folder");
    for (const char* option : {"--metrics ", "--trace ", "--report ", "--recipe atom --profile "})
      refused(data + option + folder + "/new", "lies in a checkpoint's folder");
  };
  all_refused();
  refused(data + "--resume --checkpoint " + folder, "is one checkpoint; give the directory that");
  io::write_atomically(folder + "/manifest.json", "{\"damaged");
  all_refused();
  EXPECT_EQ(text_of("run/step-000000002/model.safetensors"), before);
  // A manifest of something else is in nobody's way.
  fs::create_directory(path("site"));
  io::write_atomically(path("site/manifest.json"), "{\"name\": \"my site\"}");
  EXPECT_EQ(train(1, "--steps 1 --export " + path("site/w")).status, 0);
}

TEST_F(ReefTrainSafety, a_file_that_is_named_as_the_lock_but_is_none_stays_as_it_is) {
  fs::create_directory(path("run"));
  io::write_atomically(path("own.txt"), "of mine");
  fs::create_symlink("../own.txt", path("run/reef.lock"));
  const Ending ending = train(1, "--steps 1 --checkpoint " + path("run"));
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_THAT(ending.errors, HasSubstr(path("run/reef.lock") + "' is a link, no lock of a job"));
  EXPECT_EQ(text_of("own.txt"), "of mine");
}

TEST_F(ReefTrainSafety, an_option_without_a_name_is_refused_and_not_taken_for_one_that_is_absent) {
  const std::string data = "--data " + path("text.txt") + " ";
  for (const char* option : {"--checkpoint", "--export", "--metrics", "--trace", "--report",
                             "--profile", "--recipe atom --profile"})
    refused(concat(data, option, " ''"), "'' is no path");
  for (const char* option : {"--init", "--network", "--data"})
    refused(concat(option, " ''"), option);
  refused(data + "--document-end ''", "'' is no token");
  EXPECT_EQ(train(1, "--steps 1 --prompt ''").status, 0);
}

TEST_F(ReefTrainSafety, what_no_run_wrote_is_in_the_way_of_every_output) {
  const std::string data = "--data " + path("text.txt") + " ";
  io::write_atomically(path("notes"), "<!doctype html><title>My thesis</title>");
  const std::string resume = "--resume --checkpoint " + path("run") + " ";
  for (const std::string option : {"--metrics ", "--trace ", "--report ", "--export "}) {
    refused(data + option + path("notes"), "' holds something else than ");
    refused(data + resume + option + path("notes"), "' holds something else than ");
  }
  EXPECT_EQ(text_of("notes"), "<!doctype html><title>My thesis</title>");
  std::ofstream(path("empty")).flush();
  EXPECT_EQ(train(1, "--steps 1 --metrics " + path("empty")).status, 0);
}

TEST_F(ReefTrainSafety, what_an_earlier_run_left_gets_the_next_free_name_and_is_whole) {
  const std::vector<std::string> files{"m", "t", "r", "w"};
  const std::string command = "--steps 2 --metrics " + path("m") + " --trace " + path("t") +
                              " --report " + path("r") + " --export " + path("w");
  ASSERT_EQ(train(1, command).status, 0);
  std::vector<std::string> before;
  for (const std::string& file : files) before.push_back(text_of(file));
  io::write_atomically(path("w.1"), "of somebody else");
  const Ending again = train(1, command + " --seed 2");
  ASSERT_EQ(again.status, 0) << again;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string aside = files[i] + (files[i] == "w" ? ".2" : ".1");
    EXPECT_THAT(again.errors, HasSubstr("now in " + path(aside)));
    EXPECT_EQ(text_of(aside), before[i]);
    EXPECT_NE(text_of(files[i]), before[i]);
  }
  EXPECT_EQ(text_of("w.1"), "of somebody else");
}

TEST_F(ReefTrainSafety, a_resume_cuts_no_line_of_another_run_and_loses_none_of_its_own) {
  ASSERT_EQ(train(1, "--steps 8 --metrics " + path("a")).status, 0);
  const std::string other = text_of("a");
  const std::string run = "--checkpoint " + path("run") + " --checkpoint-every 3 --metrics ";
  ASSERT_EQ(train(1, "--steps 3 --seed 2 " + run + path("b")).status, 0);
  const Ending mixed = train(1, "--steps 4 --seed 2 --resume " + run + path("a"));
  ASSERT_EQ(mixed.status, 0) << mixed;
  EXPECT_THAT(mixed.errors, HasSubstr("metrics: those of an earlier run are now in "));
  EXPECT_EQ(text_of("a.1"), other);
  EXPECT_EQ(lines("a").size(), 2U);

  fs::remove_all(io::checkpoint_folder(path("run"), 4));
  std::string torn = text_of("b");
  const std::size_t summary = torn.find('\n', torn.find("\"step\":3,")) + 1;
  ASSERT_NE(summary, 0U) << torn;
  const std::string cut = torn.substr(summary) + "{\"step\":5";
  torn += "{\"step\":5";
  const std::size_t loss = torn.rfind("\"loss\":", summary) + 7;  // null: not finite
  torn.replace(loss, torn.find(',', loss) - loss, "null");
  io::write_atomically(path("b"), torn);
  const Ending own = train(1, "--steps 4 --seed 2 --resume " + run + path("b"));
  ASSERT_EQ(own.status, 0) << own;
  EXPECT_THAT(own.errors, HasSubstr("metrics: the 2 line(s) after that of step 3 are now in "));
  EXPECT_EQ(text_of("b.1"), cut);
  EXPECT_EQ(lines("b").size(), 5U);
}

TEST_F(ReefTrainSafety, metrics_that_a_full_disk_cut_short_are_still_those_of_the_run) {
  const Ending full = interrupted(1, "", [&] {
    const struct ::rlimit little { 80'000, 80'000 };  // more than a checkpoint needs
    for (const int rank : processes_with(path("m")))
      EXPECT_EQ(::prlimit(rank, RLIMIT_FSIZE, &little, nullptr), 0);
  });
  ASSERT_EQ(full.status, 1) << full;
  const auto steps = io::complete_checkpoints(path("run"));
  ASSERT_EQ(steps.size(), 1U) << full;
  std::string whole = text_of("m");
  whole.resize(whole.rfind('\n') + 1);
  const std::size_t before = lines("m").size();
  ASSERT_LT(before, steps[0]);
  const Ending resumed = train(1, concat("--resume --checkpoint ", path("run"), " --steps ",
                                         steps[0] + 2, " --metrics ", path("m")));
  ASSERT_EQ(resumed.status, 0) << resumed;
  EXPECT_THAT(resumed.errors, HasSubstr(concat("no lines of the steps ", before + 1, " to ",
                                               steps[0], ": those to come are added after")));
  EXPECT_TRUE(text_of("m").starts_with(whole));
  EXPECT_EQ(lines("m").size(), before + 3);
  EXPECT_EQ(lines("m").at(before).at("step"), steps[0] + 1);
}

TEST_F(ReefTrainSafety, files_of_tokens_that_somebody_cuts_or_rewrites_end_a_run_that_saves_first) {
  const std::string tokenizer = std::string(REEF_TEST_DATA) + "/small.tiktoken";
  const std::vector<std::int32_t> tokens =
      data::BpeTokenizer::read_tiktoken(tokenizer).encode(story(8000));
  ASSERT_GT(tokens.size(), 100'000U);
  const auto ending_by = [&](const auto& work) {
    data::write_token_file(path("t.bin"), tokens);
    std::thread worker([&] {
      if (becomes([&] { return lines("m").size() > 3; })) work();
    });
    const Ending ending = run_ranks(
        REEF_TEST_MPIEXEC, 2,
        concat(REEF_TRAIN, " --data ", path("t.bin"), " --tokenizer tiktoken:", tokenizer,
               " --model 1x2x16 --context 16 --batch 4 --steps 100000000 --checkpoint ", path("run"),
               " --export ", path("w"), " --metrics ", path("m")));
    worker.join();
    EXPECT_EQ(io::complete_checkpoints(path("run")).size(), 1U) << ending;
    EXPECT_EQ(tensors("w").size(), 16U);
    EXPECT_EQ(lines("m").back().at("summary"), true);
    fs::remove_all(path("run"));
    fs::remove(path("m"));
    return ending;
  };
  // Of what is held out, which no step reads: what is cut off while it is read would end the process.
  const Ending cut =
      ending_by([&] { fs::resize_file(path("t.bin"), fs::file_size(path("t.bin")) * 19 / 20); });
  EXPECT_EQ(cut.status, 1) << cut;
  EXPECT_THAT(cut.errors, HasSubstr("failed: --data: '" + path("t.bin") + "': it was cut from "));
  const Ending written = ending_by([&] {
    std::fstream file(path("t.bin"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end).put('\0');
  });
  EXPECT_EQ(written.status, 1) << written;
  EXPECT_THAT(written.errors, HasSubstr(path("t.bin") + "': it was written to"));
  EXPECT_THAT(written.errors, Not(HasSubstr("held-out loss: ")));
}

TEST_F(ReefTrainSafety, a_pipe_that_nobody_reads_is_told_and_not_waited_for) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string why = path("pipe") + "': it is a pipe that nobody reads";
  const Ending metrics = train(1, "--steps 1 --metrics " + path("pipe"));
  EXPECT_EQ(metrics.status, 1) << metrics;
  EXPECT_THAT(metrics.errors, HasSubstr(why));
  const Ending report = train(1, "--steps 1 --report " + path("pipe") + " --export " + path("w") +
                                     " --checkpoint " + path("run"));
  EXPECT_EQ(report.status, 1) << report;
  EXPECT_THAT(report.errors, ContainsRegex("failed: --report .*it is a pipe that nobody reads"));
  EXPECT_EQ(tensors("w").size(), 16U);
  EXPECT_EQ(io::complete_checkpoints(path("run")).size(), 1U);
}

TEST_F(ReefTrainSafety, a_folder_that_is_missing_is_named_whatever_was_to_be_in_it) {
  for (const char* option : {"--metrics", "--export"}) {
    const Ending ending = train(1, concat("--steps 1 ", option, " ", path("no/dir/x")));
    EXPECT_EQ(ending.status, 1) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("the folder '" + path("no/dir") + "' does not exist"));
  }
}

TEST_F(ReefTrainSafety, two_jobs_with_one_file_of_metrics_are_refused_the_second) {
  Ending second;
  const std::string rival = "--steps 2 --metrics " + path("m");
  const Ending first = interrupted(2, "", [&] {
    second = train(1, rival);
    for (const int rank : processes_with(path("w"))) ::kill(rank, SIGUSR1);
  });
  EXPECT_EQ(second.status, 1) << second;
  EXPECT_THAT(second.errors, HasSubstr("another job writes its metrics to '" + path("m") + "'"));
  left_all(first);
  EXPECT_FALSE(fs::exists(path("m.1")));
}

TEST_F(ReefTrainSafety, a_step_that_is_not_finite_takes_no_committed_weights_with_it) {
  for (const char* options :
       {"--recipe ddp", "--recipe acco", "--recipe zero1 --non-finite skip"}) {
    const Ending ending =
        train(2, concat(options, " --steps 200 --lr 1e17 --clip 0 --warmup 0 --metrics ", path("m"),
                        " --report ", path("r"), " --checkpoint ", path("run")));
    EXPECT_EQ(ending.status, 1) << ending;
    const auto steps = io::complete_checkpoints(path("run"));
    ASSERT_EQ(steps.size(), 1U) << ending;
    EXPECT_EQ(lines("m").at(steps[0] - 1).at("committed"), true);
    EXPECT_EQ(lines_that_begin_with("reef-train: ", ending.errors), 1) << ending;
    fs::remove_all(path("run"));
  }
}

TEST_F(ReefTrainSafety, weights_that_are_not_finite_are_neither_saved_nor_exported_but_named) {
  const Ending ending =
      train(2, "--steps 3 --lr 1e18 --clip 0 --warmup 0 --non-finite ignore --export " + path("w") +
                   " --checkpoint " + path("run") + " --metrics " + path("m"));
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_THAT(ending.errors, ContainsRegex("not finite: element [0-9]+ of '[a-z0-9.]+' is "
                                           "-?(nan|inf) on rank 0; nothing is saved"));
  EXPECT_THAT(ending.errors, ContainsRegex("on rank 0; no weights are exported"));
  EXPECT_TRUE(io::complete_checkpoints(path("run")).empty());
  EXPECT_FALSE(fs::exists(path("w")));
}

TEST_F(ReefTrainSafety, a_text_with_less_held_out_than_a_window_can_still_be_exported) {
  io::write_atomically(path("tiny.txt"), "the quick brown fox jumps over the lazy dog, twice.\n");
  const Ending ending = train(1, "--steps 2 --data " + path("tiny.txt") + " --export " + path("w"));
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_EQ(tensors("w").size(), 16U);
}

TEST_F(ReefTrainSafety, a_run_that_is_refused_before_its_first_step_makes_no_directory) {
  ASSERT_EQ(train(1, "--steps 1 --export " + path("w")).status, 0);
  const Ending ending =
      train(1, "--model 1x2x18 --init " + path("w") + " --checkpoint " + path("up/run"));
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_FALSE(fs::exists(path("up")));
}

TEST_F(ReefTrainSafety, a_file_that_takes_no_byte_is_refused_before_the_first_step) {
  for (const std::string option : {"--export", "--trace", "--report"}) {
    const Ending ending = train(1, "--steps 3 " + option + " /dev/full");
    EXPECT_NE(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, ContainsRegex("/dev/full.*No space left"));
    EXPECT_THAT(ending.errors, Not(HasSubstr("step 1/"))) << option;
  }
}

TEST_F(ReefTrainSafety, side_files_that_fail_take_no_weights_with_them_and_are_all_named) {
  fs::create_directory(path("gone"));
  std::thread remover([&] {
    if (becomes([&] { return !io::complete_checkpoints(path("run")).empty(); })) fs::remove(path("gone"));
  });
  const Ending ending =
      train(2, "--steps 600 --trace " + path("gone/t") + " --report " + path("gone/r") + " --checkpoint " + path("run") +
                   " --checkpoint-every 2 --checkpoint-keep 2 --export " + path("w") + " --metrics " + path("m"));
  remover.join();
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("failed: --trace " + path("gone/t") + ": "));
  EXPECT_THAT(ending.errors, HasSubstr("failed: --report " + path("gone/r") + ": "));
  EXPECT_THAT(ending.errors, HasSubstr("held-out loss: "));
  EXPECT_EQ(tensors("w").size(), 16U);
  EXPECT_EQ(lines("m").size(), 601U);
  EXPECT_EQ(io::complete_checkpoints(path("run")).size(), 2U);
}

TEST_F(ReefTrainSafety, a_checkpoint_that_fails_is_told_and_takes_nothing_else_with_it) {
  fs::create_directory(path("run"));
  for (const char* in_the_way : {"step-000000002", "step-000000006"})
    std::ofstream(path("run") + "/" + in_the_way) << "a file where a folder should be";
  const Ending ending = train(2, "--recipe zero1 --steps 6 --checkpoint " + path("run") +
                                     " --checkpoint-every 2 --export " + path("w") + " --metrics " +
                                     path("m") + " --report " + path("r"));
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("(2 times, here the first): after step 2: "));
  EXPECT_EQ(io::complete_checkpoints(path("run")), (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(tensors("w").size(), 16U);
  EXPECT_EQ(lines("m").size(), 7U);
  EXPECT_GT(fs::file_size(path("r")), 4000U);

  // And an export that fails takes no checkpoint with it.
  fs::create_directory(path("gone"));
  std::thread remover([&] {
    if (becomes([&] { return !io::complete_checkpoints(path("again")).empty(); }))
      fs::remove(path("gone"));
  });
  const Ending no_export =
      train(2, "--steps 600 --checkpoint-every 2 --checkpoint-keep 1 --checkpoint " +
                   path("again") + " --export " + path("gone/w") + " --trace " + path("t"));
  remover.join();
  EXPECT_EQ(no_export.status, 1) << no_export;
  EXPECT_THAT(no_export.errors, HasSubstr("failed: --export " + path("gone/w")));
  EXPECT_EQ(io::complete_checkpoints(path("again")), (std::vector<std::uint64_t>{600}));
  EXPECT_TRUE(fs::exists(path("t")));
}

TEST_F(ReefTrainSafety, metrics_that_cannot_be_written_end_a_run_that_saves_first) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(
      std::system(("timeout 170 head -n 2 " + path("pipe") + " > " + path("read") + " &").c_str()),
      0);
  for (const std::string& metrics : {std::string("/dev/full"), path("pipe")}) {
    const Ending ending = train(2, "--steps 100000000 --metrics " + metrics + " --export " +
                                       path("w") + " --checkpoint " + path("run"));
    EXPECT_EQ(ending.status, 1) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("failed: --metrics " + metrics + ": cannot write it: "));
    EXPECT_EQ(tensors("w").size(), 16U);
    EXPECT_EQ(io::complete_checkpoints(path("run")).size(), 1U);
    fs::remove(path("w"));
    fs::remove_all(path("run"));
  }
}

TEST_F(ReefTrainSafety, files_that_are_removed_or_may_not_grow_are_failures_and_no_end) {
  std::thread remover([&] {
    if (becomes([&] { return lines("m").size() > 3; })) fs::remove(path("m"));
  });
  const Ending removed = train(1, "--steps 5000 --metrics " + path("m") + " --export " + path("w"));
  remover.join();
  EXPECT_EQ(removed.status, 1) << removed;
  EXPECT_THAT(removed.errors,
              HasSubstr("failed: --metrics " + path("m") + ": cannot write it: No such"));
  EXPECT_EQ(tensors("w").size(), 16U);

  fs::remove(path("w"));
  const Ending small = interrupted(1, "", [&] {
    const struct ::rlimit little { 2000, 2000 };
    for (const int rank : processes_with(path("m")))
      EXPECT_EQ(::prlimit(rank, RLIMIT_FSIZE, &little, nullptr), 0);
  });
  EXPECT_EQ(small.status, 1) << small;
  for (const std::string& file : {"--metrics " + path("m"), "--checkpoint " + path("run"),
                                  "--export " + path("w"), "--trace " + path("t")}) {
    EXPECT_THAT(small.errors, ContainsRegex("failed: " + file + ".*File too large"));
  }
}

TEST_F(ReefTrainSafety, the_held_out_loss_is_bounded_comes_after_the_weights_and_on_the_way) {
  const Ending whole = train(1, "--steps 2 --metrics " + path("whole"));
  EXPECT_THAT(whole.errors, HasSubstr("1840 held out, vocabulary"));
  for (const char* recipe : {"ddp", "diloco"}) {
    const Ending ending =
        train(2, concat("--recipe ", recipe, " --steps 6 --eval-tokens 500 --eval-every 2 ",
                        "--metrics ", path(recipe), " --export ", path("w"), " --checkpoint ",
                        path(concat("run.", recipe))));
    ASSERT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("1840 held out (the first 501 are evaluated), "));
    EXPECT_THAT(ending.errors, HasSubstr("evaluating 500 held-out bytes"));
    EXPECT_THAT(ending.errors, HasSubstr(" nats/byte after 2 steps"));
    EXPECT_LT(ending.errors.find("wrote " + path("w")), ending.errors.find("evaluating 500"));
    EXPECT_LT(ending.errors.find("checkpoint: "), ending.errors.find("evaluating 500"));
    const auto metrics = lines(recipe);
    ASSERT_EQ(metrics.size(), 7U);
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(metrics[i].contains("validation_loss"), i % 2 == 1) << recipe << i;
    EXPECT_EQ(metrics[5].at("validation_loss"), metrics[6].at("validation_loss"));
    if (recipe == std::string("ddp")) {
      EXPECT_LT(metrics[5].at("validation_loss"), metrics[1].at("validation_loss"));
    }
  }
  // Evaluating on the way changes nothing of the training.
  ASSERT_EQ(train(2, "--steps 6 --export " + path("again")).status, 0);
  ASSERT_EQ(train(2, "--steps 6 --eval-every 1 --export " + path("evaluated")).status, 0);
  EXPECT_EQ(tensors("again"), tensors("evaluated"));
}

TEST_F(ReefTrainSafety, a_signal_to_any_rank_saves_writes_and_ends_with_a_status_of_its_own) {
  const std::vector<std::pair<std::string, int>> cases{
      {"ddp", SIGUSR1}, {"zero1", SIGTERM}, {"acco", SIGINT}, {"diloco --sync-every 5", SIGHUP}};
  const auto before =
      ::signal(SIGHUP, SIG_DFL);  // for the jobs, also where this test runs under nohup
  for (const auto& [recipe, wanted] : cases) {
    const Ending ending = interrupted(2, "--recipe " + recipe, [&, signal = wanted] {
      const std::vector<int> ranks = processes_with(path("m"));
      if (ranks.size() == 2U) ::kill(ranks[signal == SIGINT ? 0 : 1], signal);
    });
    left_all(ending);
    EXPECT_THAT(ending.errors, Not(HasSubstr("held-out loss: ")));
    if (recipe != "ddp") {
      fs::remove_all(path("run"));
      fs::remove(path("m"));
      continue;
    }
    const auto step = io::complete_checkpoints(path("run")).at(0);
    const Ending resumed = train(2, concat("--resume --checkpoint ", path("run"), " --steps ",
                                           step + 2, " --metrics ", path("m")));
    EXPECT_EQ(resumed.status, 0) << resumed;
    EXPECT_THAT(resumed.errors, HasSubstr(concat("resume: after step ", step)));
    EXPECT_EQ(lines("m").size(), step + 3);
    fs::remove_all(path("run"));
    fs::remove(path("m"));
  }
  ::signal(SIGHUP, before);
}

TEST_F(ReefTrainSafety,
       a_signal_to_the_launcher_does_the_same_and_so_does_its_end_with_time_to_save) {
  const auto sends = [&](int signal) {
    return [this, signal] {
      const std::vector<int> found = launcher();
      if (found.size() == 1U) ::kill(found[0], signal);
    };
  };
  left_all(interrupted(2, "", sends(SIGUSR1)));
  fs::remove_all(path("run"));
  for (const char* file : {"m", "t", "r", "w"}) fs::remove(path(file));
  ::setenv("OMPI_MCA_odls_base_sigkill_timeout", "10", 1);  // before SIGTERM, and again after it
  Ending ending = interrupted(2, "", sends(SIGTERM));
  ::unsetenv("OMPI_MCA_odls_base_sigkill_timeout");
  EXPECT_NE(ending.status, 0);
  ending.status = stopped;  // the launcher's own says nothing of its ranks'
  left_all(ending);
}

TEST_F(ReefTrainSafety, a_second_signal_ends_at_once) {
  std::thread sender([&] {
    if (!becomes([&] { return fs::exists(path("run")); })) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const std::vector<int> ranks = processes_with(path("run"));
    if (ranks.size() != 1U) return;
    // Of one event, however late this thread is with the second: both wait for the process to go on.
    for (const int signal : {SIGSTOP, SIGUSR1, SIGHUP, SIGCONT}) ::kill(ranks[0], signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    EXPECT_EQ(processes_with(path("run")), ranks);
    ::kill(ranks[0], SIGTERM);
  });
  // A rank that steps on its own heeds the first where it meets the others: here, not soon.
  const Ending ending = train(1,
                              "--recipe diloco --sync-every 1000000 --steps 100000000 "
                              "--checkpoint " +
                                  path("run"));
  sender.join();
  EXPECT_EQ(ending.status, 128 + SIGTERM) << ending;
  EXPECT_TRUE(io::complete_checkpoints(path("run")).empty());
}

TEST_F(ReefTrainSafety, a_signal_during_the_evaluation_or_the_sample_ends_those) {
  {
    std::ofstream text(path("long.txt"));
    for (int i = 0; i < 400'000; ++i)
      text << "the quick brown fox jumps over the lazy dog " << i % 10 << '\n';
  }
  for (const std::string& long_one :
       {"--eval-tokens 0 --data " + path("long.txt"), std::string("--prompt-tokens 100000000")}) {
    std::thread sender([&] {
      if (!becomes([&] { return fs::exists(path("w")); })) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      for (const int rank : processes_with(path("w"))) ::kill(rank, SIGUSR1);
    });
    const Ending ending =
        train(2, "--steps 2 --metrics " + path("m") + " --export " + path("w") + " " + long_one);
    sender.join();
    EXPECT_EQ(ending.status, stopped) << ending;
    EXPECT_EQ(lines("m").size(), 3U);
    fs::remove(path("m"));
    fs::remove(path("w"));
  }
}

TEST_F(ReefTrainSafety, the_newest_checkpoints_are_kept_and_older_ones_removed) {
  const std::string command =
      " --checkpoint-every 2 --checkpoint-keep 2 --checkpoint " + path("run");
  ASSERT_EQ(train(2, "--steps 8" + command).status, 0);
  EXPECT_EQ(io::complete_checkpoints(path("run")), (std::vector<std::uint64_t>{6, 8}));
  ASSERT_EQ(train(2, "--steps 10 --resume" + command).status, 0);
  EXPECT_EQ(io::complete_checkpoints(path("run")), (std::vector<std::uint64_t>{8, 10}));
  refused("--data " + path("text.txt") + " --checkpoint-keep 2", "--checkpoint-keep");
}

}  // namespace reef::test
