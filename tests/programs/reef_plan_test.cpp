// reef-plan as a program: its commands, its options, what it needs, and what the documentation says of it.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

TEST_F(ReefPlan, without_a_command_it_says_what_there_is) {
  const Ending list = run_command(std::string(REEF_PLAN));
  EXPECT_EQ(list.status, 0);
  for (const char* command : {"swap", "simulate", "allocate", "cluster", "op-fence", "adatopk", "encode",
                              "estimate", "messages", "blocks", "route"})
    EXPECT_THAT(list.output, HasSubstr(std::string("reef-plan ") + command + " case.json"));
  EXPECT_THAT(list.output, HasSubstr("    reef-plan measure\n"));
}

TEST_F(ReefPlan, reads_every_case_there_is) {
  for (const auto& [command, name] :
       {std::pair{"swap", "atom_partition.json"}, std::pair{"simulate", "swap_schedule.json"},
        std::pair{"blocks", "petals_block_selection.json"},
        std::pair{"blocks", "petals_greedy_join.json"}, std::pair{"route", "petals_routing.json"},
        std::pair{"cluster", "louvain.json"}, std::pair{"op-fence", "op_fence.json"},
        std::pair{"messages", "remote_dag.json"}}) {
    const io::Json cases = ReefPlan::file(name).at("cases");
    for (const io::Json& test : cases) answer(command, test);
  }
}

/// Holds that an answer is the one that a page shows. Of one that the page has shortened, with ", ..." where something is left
/// out, objects may have more keys and arrays more elements.
void expect_shown(const io::Json& found, const io::Json& said, bool is_shortened, const std::string& at) {
  if (at.ends_with("peak_device_bytes")) {  // with the workspace of whatever BLAS is here
    EXPECT_NEAR(found.get<double>(), said.get<double>(), 0.1 * said.get<double>()) << at;
  } else if (said.is_number_float()) {
    EXPECT_NEAR(found.get<double>(), said.get<double>(), 1e-9) << at;
  } else if (said.is_object() && found.is_object()) {
    EXPECT_TRUE(is_shortened ? found.size() >= said.size() : found.size() == said.size()) << at << ": " << found;
    for (const auto& [key, value] : said.items()) {
      ASSERT_TRUE(found.contains(key)) << at << " has no " << key;
      expect_shown(found.at(key), value, is_shortened, at + "." + key);
    }
  } else if (said.is_array() && found.is_array()) {
    ASSERT_TRUE(is_shortened ? found.size() >= said.size() : found.size() == said.size()) << at << ": " << found;
    for (std::size_t i = 0; i < said.size(); ++i) expect_shown(found[i], said[i], is_shortened, at + "[" + std::to_string(i) + "]");
  } else {
    EXPECT_EQ(found, said) << at;
  }
}

TEST_F(ReefPlan, answers_the_cases_of_the_documentation_as_they_stand_there) {
  int cases = 0, shortened = 0;
  for (const char* const page : {"README.md", "docs/choosing.md", "docs/planners.md"}) {
    SCOPED_TRACE(page);
    std::ifstream file(std::filesystem::path(REEF_README).parent_path() / page);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    constexpr std::string_view shown = "\n$ cat ";
    for (std::size_t at = text.find(shown); at != std::string::npos; at = text.find(shown, at + 1)) {
      // $ cat NAME, the case, $ reef-plan COMMAND NAME, the answer, which the page may break into lines, and another command or the end.
      const std::size_t begin = text.find('\n', at + 1) + 1;
      const std::size_t end = text.find("\n$ reef-plan ", begin);
      ASSERT_NE(end, std::string::npos);
      const std::size_t name = end + std::string_view("\n$ reef-plan ").size();
      const std::size_t line = text.find('\n', name) + 1;
      const std::string command = text.substr(name, text.find(' ', name) - name);
      std::string said = text.substr(line, std::min(text.find("\n```", line), text.find("\n$ ", line)) - line);
      constexpr std::string_view left_out = ", ...";
      const bool is_shortened = said.find(left_out) != std::string::npos;
      for (std::size_t dots = said.find(left_out); dots != std::string::npos; dots = said.find(left_out)) said.erase(dots, left_out.size());
      const io::Json found = answer(command, io::parse_json(text.substr(begin, end - begin), "case"));
      expect_shown(found, io::parse_json(said, "the page's answer"), is_shortened, command);
      ++cases;
      shortened += is_shortened;
    }
  }
  EXPECT_GE(cases, 8);
  EXPECT_GE(shortened, 2);
}

TEST_F(ReefPlan, measure_says_in_one_line_how_a_network_is_measured) {
  const Ending ending = run_command(std::string(REEF_PLAN) + " measure");
  EXPECT_EQ(ending.status, 0);
  EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending;
  EXPECT_THAT(ending.output, testing::ContainsRegex("^mpiexec -n P .*reef-measure --output "));
}

TEST_F(ReefPlan, an_answer_that_cannot_be_written_is_an_error) {
  const std::string test = (folder_ / "case.json").string();
  write_file(test, case_of("swap_schedule.json", 1).dump());
  for (const std::string& words :
       {"simulate " + test, std::string("--version"), std::string("--help"),
        std::string("swap --help"), std::string()}) {
    const Ending ending =
        run_command("sh -c '" + std::string(REEF_PLAN) + " " + words + " >/dev/full'");
    EXPECT_EQ(ending.status, 1) << words;
    EXPECT_THAT(ending.errors, testing::StartsWith("reef-plan: cannot write ")) << words;
    EXPECT_THAT(ending.errors, HasSubstr("No space left on device")) << words;
    EXPECT_EQ(run_command("sh -c '" + std::string(REEF_PLAN) + " " + words + " >&-'").status, 1)
        << words;
  }
}

TEST_F(ReefPlan, what_cannot_be_written_is_found_before_the_case_is_read) {
  const std::string folder = (folder_ / "sub").string();
  std::filesystem::create_directory(folder);
  write_file(folder_ / "sub" / "file", "text");
  for (const auto& [command, option] : {std::pair{"simulate", "--trace"}, std::pair{"schedule", "--write-order"},
                                        std::pair{"schedule", "--plot"}, std::pair{"allocate", "--plot"},
                                        std::pair{"op-fence", "--plot"}, std::pair{"plan", "--plan"}}) {
    // No case, which only who reads it would say.
    for (const auto& [file, why] : {std::pair{std::string("/dev/full"), "No space left on device"}, std::pair{folder, "it is a folder"},
                                    std::pair{folder + "/none/x", "does not exist"}, std::pair{folder + "/.", "it is a folder"},
                                    std::pair{folder + "/file/x", "is no folder"}}) {
      const Ending ending = plan(command, "no case", concat(option, " ", file));
      expect_refusal(ending, why);
      EXPECT_THAT(ending.errors, HasSubstr("cannot write")) << command << " " << option << " " << file;
    }
  }
}

TEST_F(ReefPlan, an_answer_whose_file_cannot_be_written_at_the_end_is_on_standard_output) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string test = case_of("swap_schedule.json", 1).dump();
  const Ending ending = plan("simulate", test, "--trace " + pipe);
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_THAT(ending.errors, testing::StartsWith("reef-plan: reef::io: cannot write to '" + pipe + "': it is a pipe that nobody reads"));
  EXPECT_EQ(ending.output, plan("simulate", test).output);
}

TEST_F(ReefPlan, needs_no_mpi_and_no_cuda_to_run) {
  const Ending libraries = run_command(std::string("ldd ") + REEF_PLAN);
  ASSERT_EQ(libraries.status, 0) << libraries;
  EXPECT_THAT(libraries.output, HasSubstr("libstdc++"));
  for (const char* library : {"libmpi", "libopen-pal", "libcuda", "libcublas"})
    EXPECT_THAT(libraries.output, testing::Not(HasSubstr(library)));
}

TEST_F(ReefPlan, options_that_are_none_end_with_status_2) {
  const auto refused = [](const Ending& ending) { expect_refusal(ending, ""); };
  refused(plan("swap", "{}", "--variant fastest"));
  refused(plan("fly", "{}"));
  EXPECT_EQ(answer("swap", case_of("atom_partition.json", 0), "--seed 3 --budget 10").at("C"), 1);
  const std::string good = case_of("atom_partition.json", 0).dump();
  for (const char* number : {"-1", "0x10", "1e3", "1_000", "+1", "99999999999999999999", "''"})
    refused(plan("swap", good, std::string("--seed ") + number));
  for (const char* number : {"nan", "inf", "0x1p3", "1,5", "-1", "3s"})
    refused(plan("swap", good, std::string("--budget ") + number));
  const Ending help = run_command(std::string(REEF_PLAN) + " swap --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--variant"));
}

}  // namespace
}  // namespace reef::test
