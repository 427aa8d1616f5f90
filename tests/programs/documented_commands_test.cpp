// The commands of docs/first_two_machines.md and docs/swapping.md as they stand there, one after another in one folder: on
// one machine, whose loopback is the network, and with a text, a model and times that take a moment.

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

#include "../support/job.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// What begins commands that are not run here, and why.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> not_run_here{{
    {"scp ", "copies to the second machine"},
    {"cmake --build ", "builds the programs that this test is given"},
    {"cmake --install ", "installs them for all users; tests/install installs"},
}};

bool is_run_here(const std::string& command) {
  return std::none_of(not_run_here.begin(), not_run_here.end(),
                      [&](const auto& one) { return command.starts_with(one.first); });
}

/// Returns the commands of a page: those of blocks of sh, and of blocks that are indented by four spaces or more.
std::vector<std::string> commands_of(const std::string& page) {
  std::ifstream file(std::filesystem::path(REEF_ROOT) / page);
  EXPECT_TRUE(file) << page;
  std::vector<std::string> commands;
  std::string command;
  bool fenced = false, indented = false, blank = true;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced && line == "```sh";
      continue;
    }
    const std::size_t begin = line.find_first_not_of(' ');
    const bool is_blank = begin == std::string::npos;
    indented = !is_blank && begin >= 4 && (indented || blank);
    blank = is_blank;
    if (!fenced && !indented) continue;
    command += (command.empty() ? "" : "\n") + line.substr(command.empty() ? begin : 0);
    // A command goes on behind a backslash, and within quotes.
    if (command.ends_with('\\') || std::count(command.begin(), command.end(), '\'') % 2 != 0) continue;
    commands.push_back(std::move(command));
    command.clear();
  }
  EXPECT_EQ(command, "") << "the last command of " << page;
  return commands;
}

/// Runs the commands of a page in a folder of its own.
class DocumentedCommands : public testing::Test {
protected:
  DocumentedCommands() {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "the quick brown fox jumps over the lazy dog " + std::to_string(i % 10) + "\n";
    write_file(folder_ / "text.txt", text);
  }

  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  /// Runs all commands but those that are not run here; returns their standard outputs.
  std::vector<std::string> run(const std::vector<std::string>& commands) {
    std::vector<std::string> outputs;
    for (const std::string& command : commands) {
      if (!is_run_here(command)) continue;
      const std::string here = on_this_machine(command);
      SCOPED_TRACE(command + "\nas\n" + here);
      write_file(folder_ / "command.sh", "cd '" + folder_.path().string() + "' || exit 1\n" + here + "\n");
      const Ending ending = run_command("sh '" + (folder_ / "command.sh").string() + "'");
      EXPECT_EQ(ending.status, 0) << ending;
      outputs.push_back(ending.output);
    }
    return outputs;
  }

private:
  /// Returns a command with this build's programs and launcher, the loopback, and counts that take a moment.
  static std::string on_this_machine(std::string command) {
    const auto replace = [&](std::string_view from, std::string_view to) {
      for (std::size_t at = command.find(from); at != std::string::npos; at = command.find(from, at + to.size()))
        command.replace(at, from.size(), to);
    };
    replace("build/release/examples/", REEF_PROGRAMS "/");
    replace("/opt/reef/bin/", REEF_PROGRAMS "/");
    if (command.starts_with("mpiexec ")) command.replace(0, std::string_view("mpiexec").size(), REEF_TEST_MPIEXEC);
    replace("machine-1 slots=1\\nmachine-2 slots=1", "localhost slots=2");
    replace("192.168.7.0/24", "127.0.0.0/8");
    replace("/data/text.txt", "text.txt");
    replace("--steps 20 ", "--steps 2 ");
    const auto add = [&](std::string_view option, std::string_view value) {
      if (command.find(std::string(option) + " ") != std::string::npos) return;
      command += concat(" ", option, " ", value);
    };
    if (command.find("/reef-train ") != std::string::npos) {
      add("--data", "text.txt");
      add("--model", "1x2x16");
      add("--context", "16");
      add("--batch", "2");
      add("--prompt-bytes", "20");
    }
    if (command.find("/reef-measure ") != std::string::npos) {
      add("--seconds", "1");
      command += " --links-only";
    }
    return command;
  }

  TemporaryFolder folder_;
};

TEST_F(DocumentedCommands, of_the_first_two_machines_run_on_the_loopback_of_one) {
  if (run_command(REEF_TEST_MPIEXEC " --version").output.find("Open") == std::string::npos)
    GTEST_SKIP() << "the page is about Open MPI, and the launcher here is another";
  const std::vector<std::string> commands = commands_of("docs/first_two_machines.md");
  for (const auto& [begin, why] : not_run_here) {
    EXPECT_TRUE(std::any_of(commands.begin(), commands.end(),
                            [&](const std::string& command) { return command.starts_with(begin); }))
        << "no command of the page begins with '" << begin << "', which is not run here since it " << why;
  }
  const std::vector<std::string> outputs = run(commands);
  ASSERT_EQ(outputs.size(), 7U) << "a network, a run; hosts, a run; a measurement, a case, a simulation";
  EXPECT_TRUE(std::filesystem::exists(path("report.html")));
  const io::Json measured = io::read_json(path("measured.json"));
  EXPECT_EQ(measured.at("latency_ms").size(), 2U) << measured;
  EXPECT_THAT(outputs.back(), StartsWith("{"));
  EXPECT_THAT(outputs.back(), HasSubstr("\"step_s\""));
}

TEST_F(DocumentedCommands, of_a_model_that_does_not_fit_run) {
  const std::vector<std::string> outputs = run(commands_of("docs/swapping.md"));
  ASSERT_EQ(outputs.size(), 3U) << "a run, a case, a simulation";
  for (const char* const file : {"report.html", "profile.json", "foreseen.json"})
    EXPECT_TRUE(std::filesystem::exists(path(file))) << file;
  EXPECT_THAT(outputs.back(), StartsWith("{"));
  EXPECT_THAT(outputs.back(), HasSubstr("\"step_s\""));
}

}  // namespace
}  // namespace reef::test
