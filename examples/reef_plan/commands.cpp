#include "commands.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>

#include "../support/earlier_files.hpp"
#include "../support/file_roles.hpp"
#include "../support/number_option.hpp"
#include "../support/output_places.hpp"

namespace reef_examples {

CLI::App* Commands::add(const std::string& name, const std::string& what,
                        const std::string& example, Answer answer) {
  CLI::App* const command = app_.add_subcommand(name, what);
  command->add_option("CASE", case_.file, "a JSON file that holds one object: the case")
      ->required();
  command
      ->add_option("--seed", case_.seed,
                   "of what is drawn: by allocate, op-fence, schedule, and blocks for should_move; others "
                   "draw nothing")
      ->transform(number_from<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()));
  command
      ->add_option("--budget", case_.budget,
                   "seconds, for the searches of allocate, op-fence, schedule and plan; others do not heed it")
      ->transform(number_from<double>(0, 1e9));
  command->callback([this, answer = std::move(answer)] { chosen_ = answer; });
  examples_.emplace_back(name, example);
  return command;
}

void Commands::add_hint(const std::string& name, const std::string& what, std::string line) {
  app_.add_subcommand(name, what)->callback([this, line = std::move(line)] {
    hint_ = reef::concat(line, "\n");
  });
  examples_.emplace_back(name, "");
}

CLI::Option* Commands::add_output(CLI::App* command, const std::string& option, Output kind,
                                  std::string& file, const std::string& what) {
  outputs_.push_back({option, kind, &file});
  return command->add_option(option, file, what)->check([](const std::string& name) {
    return name.empty() ? "'' is no path" : std::string();
  });
}

CLI::Option* Commands::add_input(CLI::App* command, const std::string& option, std::string& file,
                                 const std::string& what) {
  inputs_.emplace_back(option, &file);
  return command->add_option(option, file, what)->check([](const std::string& name) {
    return name.empty() ? "'' is no path" : std::string();
  });
}

std::string Commands::list() const {
  std::string text =
      "reef-plan COMMAND CASE.json prints one JSON object. Commands, and how each may be "
      "called:\n\n";
  for (const auto& [name, example] : examples_) {
    std::string what = app_.get_subcommand(name)->get_description();
    what.resize(std::min(what.size(), what.find('\n')));
    text += reef::concat("  ", name, ": ", what, "\n    reef-plan ", name,
                         example.empty() ? "" : " ", example, "\n");
  }
  return text +
         "\nreef-plan COMMAND --help says what a case holds. reef-plan --help lists the options.\n";
}

reef::io::Json Commands::answer() const {
  FileRoles files;
  files.reads("the case", case_.file);
  for (const auto& [option, file] : inputs_) files.reads(option, *file);
  for (const OutputOption& output : outputs_) files.writes(output.name, *output.file);
  if (const auto clash = files.clash())
    throw reef::OptionError(clash->first, ": ", clash->second, ".");
  for (const OutputOption& output : outputs_) {
    if (const auto why = in_the_way(output.kind, *output.file))
      throw reef::OptionError(output.name, ": ", *why, ".");
    if (!output.file->empty()) require_room_in_file(*output.file);
  }
  PlanCase read = case_;
  // A file of a million devices is refused before it is read to its end.
  read.json = reef::io::read_json(read.file, {.nested = 100'000});
  reef::io::require_object(read.json, "", read.file);
  return chosen_(read);
}

namespace {

bool any_output_failed = false;

}  // namespace

void write_output(const std::string& file, const std::function<void()>& write) {
  if (file.empty()) return;
  try {
    const std::string aside = write_in_place(file, write);
    if (!aside.empty()) std::fprintf(stderr, "reef-plan: wrote %s%s\n", file.c_str(), aside.c_str());
  } catch (const reef::FileError& error) {
    any_output_failed = true;
    std::fprintf(stderr, "reef-plan: %s\n", in_one_line(error.what()).c_str());
  }
}

bool output_failed() { return any_output_failed; }

std::string in_one_line(std::string text) {
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
    const std::size_t end = text.find_first_not_of(" \n", at);
    text.replace(at, (end == std::string::npos ? text.size() : end) - at, " ");
  }
  return text;
}

}  // namespace reef_examples
