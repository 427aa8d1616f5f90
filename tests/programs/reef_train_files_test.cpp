// What reef-train does with names of files: of what kind they are, which of two counts, and what cannot be written.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

#include "reef_train_job.hpp"

namespace reef::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class ReefTrainFiles : public ReefTrain {
protected:
  /// The program alone, with what stands before it in a shell.
  [[nodiscard]] Ending alone(const std::string& options, const std::string& before = "") const {
    return run_command("sh -c '" + before + " " + REEF_TRAIN + " --data " + path("text.txt") +
                       " --context 16 --batch 4 --threads 1 --prompt-bytes 0 --steps 1 " + options +
                       "'");
  }
  /// A plan for reef-train of such a model.
  void write_plan(const std::string& name, const std::string& model,
                  const std::string& more = "") const {
    write(name, R"({"written_by": "reef-plan plan", "ranks": 1, "options": {"--model": ")" + model +
                    R"(")" + more + "}}");
  }
};

TEST_F(ReefTrainFiles, of_two_plans_the_last_counts) {
  write_plan("a.json", "1x2x16");
  write_plan("b.json", "2x2x16");
  for (const char* const options :
       {"--plan %a --plan %b", "--plan=%a --plan=%b", "--plan %a --plan=%b"}) {
    std::string text = options;
    for (const char* const name : {"a", "b"}) {
      const std::string mark = std::string("%") + name;
      text.replace(text.find(mark), 2, path(std::string(name) + ".json"));
    }
    const Ending ending = alone(text);
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("2 layers, 2 heads, 16 channels")) << text;
  }
}

TEST_F(ReefTrainFiles, what_is_no_regular_file_is_refused_by_name_whatever_reads_it) {
  write_plan("plan.json", "1x2x16");
  const Ending piped = alone("--plan /dev/stdin", "cat " + path("plan.json") + " |");
  EXPECT_EQ(piped.status, 2) << piped;
  EXPECT_THAT(piped.errors, AllOf(HasSubstr("--plan: "), HasSubstr("/dev/stdin"),
                                  HasSubstr("is a pipe, no regular file"), HasSubstr("fix: ")));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_directory(path("folder"));
  for (const char* const option : {"--plan", "--order", "--graph", "--network", "--profile",
                                   "--replay-ratios", "--data", "--init"}) {
    const Ending pipe = alone(concat("--model 1x2x16 ", option, " ", path("pipe")));
    EXPECT_EQ(pipe.status, 2) << option << pipe;
    EXPECT_THAT(pipe.errors, AllOf(HasSubstr(option), HasSubstr("is a pipe, no regular file")))
        << option;
    const Ending device = alone(concat("--model 1x2x16 ", option, " /dev/null"));
    EXPECT_EQ(device.status, 2) << option << device;
    EXPECT_THAT(device.errors, AllOf(HasSubstr(option), HasSubstr("is a device, no regular file")))
        << option;
    if (std::string(option) == "--init") continue;  // of a folder it says what is not in it
    const Ending folder = alone(concat("--model 1x2x16 ", option, " ", path("folder")));
    EXPECT_EQ(folder.status, 2) << option << folder;
    EXPECT_THAT(folder.errors, AllOf(HasSubstr(option), HasSubstr("is a folder, no regular file")))
        << option;
  }
  for (const char* const option :
       {"--plan", "--order", "--graph", "--network", "--data", "--init"}) {
    const Ending none = alone(concat("--model 1x2x16 ", option, " ", path("none")));
    EXPECT_EQ(none.status, 2) << option << none;
    EXPECT_THAT(none.errors,
                AllOf(HasSubstr(option), HasSubstr("File does not exist: " + path("none"))))
        << option;
  }
  write("empty", "");
  for (const char* const option : {"--plan", "--graph", "--network"}) {
    const std::string text = concat(option, " ", path("empty"));
    const Ending empty =
        std::string(option) == "--graph" ? run_command(concat(REEF_TRAIN, " ", text)) : alone(text);
    EXPECT_NE(empty.status, 0) << option << empty;
    EXPECT_THAT(empty.errors, HasSubstr(path("empty"))) << option;
  }
}

TEST_F(ReefTrainFiles, a_plan_for_another_model_is_said_to_be_and_one_that_names_a_plan_is_none) {
  write_plan("plan.json", "2x2x16");
  const Ending other = alone("--plan " + path("plan.json") + " --model 1x2x16");
  EXPECT_EQ(other.status, 0) << other;
  EXPECT_THAT(other.errors,
              HasSubstr("plan: " + path("plan.json") +
                        " is for --model 2x2x16 (here 1x2x16): a step takes another time"));
  const Ending same = alone("--plan " + path("plan.json") + " --model 2x2x16");
  EXPECT_EQ(same.status, 0) << same;
  EXPECT_THAT(same.errors, Not(HasSubstr("is for --model")));
  write_plan("other.json", "2x2x16", R"(, "--plan": "plan.json")");
  EXPECT_THAT(alone("--plan " + path("other.json")).errors, HasSubstr("options has '--plan'"));
}

TEST_F(ReefTrainFiles, what_cannot_be_written_is_found_before_anything_is_planned) {
  write("file", "text");
  fs::create_directory(path("sub"));
  for (const char* const option : {"--export", "--trace", "--report", "--metrics"}) {
    const Ending none = train(2, concat(option, " ", path("none/x")));
    EXPECT_EQ(none.status, 1) << none;
    EXPECT_THAT(none.errors, HasSubstr("cannot write '" + path("none/x") + "': the folder '" +
                                       path("none") + "' does not exist"))
        << option;
    EXPECT_THAT(none.errors, Not(HasSubstr("text: "))) << option << ": the data was read";
    const Ending folder = train(1, concat(option, " ", path("sub")));
    EXPECT_NE(folder.status, 0) << folder;
    EXPECT_THAT(folder.errors, HasSubstr("it is a folder")) << option;
    const Ending in_file = train(1, concat(option, " ", path("file/x")));
    EXPECT_NE(in_file.status, 0) << in_file;
    EXPECT_THAT(in_file.errors, HasSubstr("'" + path("file") + "' is no folder")) << option;
  }
  const Ending checkpoint = train(1, "--checkpoint " + path("file"));
  EXPECT_EQ(checkpoint.status, 1) << checkpoint;
  EXPECT_THAT(checkpoint.errors, HasSubstr(path("file") + " is a file"));
}

TEST_F(ReefTrainFiles, edges_are_recorded_into_no_hidden_file) {
  fs::create_directory(path("sub"));
  const std::string options =
      "--recipe zero1 --compress gradients=bf16 --steps 1 --record-edges 1:";
  for (const char* const name : {"sub/.", "sub/..", "sub/"}) {
    const Ending ending = train(2, options + path(name));
    EXPECT_EQ(ending.status, 2) << name << ending;
    EXPECT_THAT(ending.errors,
                AllOf(HasSubstr("--record-edges"), HasSubstr("is the name of a folder")))
        << name;
  }
  EXPECT_TRUE(fs::is_empty(path("sub")));
}

TEST_F(ReefTrainFiles, an_order_with_a_byte_order_mark_is_refused_by_its_name) {
  write("order",
        "\xEF\xBB\xBF"
        "F0 B0\nF0 B0\n");
  const Ending ending = train(2, "--recipe dtfm --order " + path("order"));
  EXPECT_NE(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr(path("order") + " begins with a byte order mark of UTF-8"));
}

TEST_F(ReefTrainFiles, a_resume_by_another_recipe_names_the_recipe_that_wrote_the_checkpoint) {
  const std::string common = "--steps 2 --checkpoint ";
  for (const auto& [wrote, reads] : {std::pair{"fusion", "acco"}, std::pair{"sparse", "acco"}}) {
    const std::string folder = path(wrote);
    const std::string sync = std::string(wrote) == "sparse" ? " --sync-every 2" : "";
    ASSERT_EQ(train(2, concat("--recipe ", wrote, sync, " ", common, folder)).status, 0) << wrote;
    const Ending resumed =
        train(2, concat("--recipe ", reads, " --steps 4 --resume --checkpoint ", folder));
    EXPECT_NE(resumed.status, 0) << resumed;
    EXPECT_THAT(resumed.errors,
                AllOf(HasSubstr(concat("written by --recipe ", wrote, ", does not hold")),
                      HasSubstr(concat("that --recipe ", reads, " needs")),
                      HasSubstr(concat("fix: resume with --recipe ", wrote))))
        << wrote;
  }
}

TEST_F(ReefTrainFiles, help_has_its_options_in_groups_that_name_their_recipes) {
  const Ending help = run_command(std::string(REEF_TRAIN) + " --help");
  EXPECT_EQ(help.status, 0);
  for (const char* const group :
       {"Stages (dtfm, fusion, reef):", "Steps of each rank's own (diloco, sparse):",
        "Checkpoints:", "Machines:"})
    EXPECT_THAT(help.output, HasSubstr(group));
  const std::size_t begin = help.output.find("Options:");
  ASSERT_NE(begin, std::string::npos);
  const std::string ungrouped = help.output.substr(begin, help.output.find("\n\n", begin) - begin);
  EXPECT_THAT(ungrouped,
              AllOf(HasSubstr("--help"), HasSubstr("--version"), Not(HasSubstr("--recipe"))));
  EXPECT_LE(std::count(ungrouped.begin(), ungrouped.end(), '\n'), 4) << ungrouped;
}

TEST_F(ReefTrainFiles, help_of_a_recipe_has_its_options_alone) {
  const Ending help = run_command(std::string(REEF_TRAIN) + " --help diloco");
  EXPECT_EQ(help.status, 0) << help;
  for (const char* const option : {"--recipe", "--steps", "--sync-every", "--outer-momentum", "--checkpoint"})
    EXPECT_THAT(help.output, HasSubstr(concat("  ", option, " ")));
  for (const char* const option : {"--stages", "--divisor", "--one-mask", "--accumulate", "--profile"})
    EXPECT_THAT(help.output, Not(HasSubstr(concat("  ", option, " "))));
  // No channel of diloco has a codec, which --help diloco is not to offer; sparse has one of its own.
  for (const char* const option : {"--compress", "--ramp-ratios", "--measure-error", "--record-edges"})
    EXPECT_THAT(help.output, Not(HasSubstr(option)));
  const Ending sparse = run_command(std::string(REEF_TRAIN) + " --help sparse");
  EXPECT_THAT(sparse.output, AllOf(HasSubstr("  --measure-error "), HasSubstr("  --record-edges "), Not(HasSubstr("  --compress "))));
  // What other recipes are is not told.
  EXPECT_THAT(help.output, AllOf(HasSubstr("--recipe diloco: ranks step on their own"), Not(HasSubstr("op-fence, --compress"))));
  const Ending refused = run_command(std::string(REEF_TRAIN) + " --help dilocoo");
  EXPECT_EQ(refused.status, 2) << refused;
  EXPECT_THAT(refused.errors, HasSubstr("'dilocoo' is no recipe; one of acco, "));
}

TEST_F(ReefTrainFiles, help_says_what_each_recipe_is) {
  const std::string help = run_command(std::string(REEF_TRAIN) + " --help").output;
  std::string names = help.substr(help.find("--recipe TEXT:{") + 15);
  names.resize(names.find('}'));
  std::erase_if(names, [](char c) { return c == ' ' || c == '\n'; });  // where lines end
  std::istringstream known(names);
  const std::string top = help.substr(0, help.find("Usage:"));
  int recipes = 0;
  for (std::string name; std::getline(known, name, ','); ++recipes)
    EXPECT_THAT(top, testing::ContainsRegex(concat("\n  ", name, " +[a-z]"))) << name;
  EXPECT_EQ(recipes, 11);
}

TEST_F(ReefTrainFiles, help_has_no_line_longer_than_a_hundred_columns) {
  std::istringstream lines(run_command(std::string(REEF_TRAIN) + " --help").output);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

}  // namespace
}  // namespace reef::test
