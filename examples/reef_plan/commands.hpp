#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/graph/placed_dag.hpp>
#include <reef/io/json.hpp>

#include "../support/earlier_files.hpp"

namespace reef_examples {

/// What a command of reef-plan reads.
struct PlanCase {
  reef::io::Json json;
  std::string file;        ///< where it is, which errors name
  std::uint64_t seed = 0;  ///< for commands that search at random
  double budget =
      0;  ///< seconds, for commands that search for as long as they are given; 0: not given
};

/// The commands of reef-plan. Each is a file, whose function add_NAME() enters it with its options.
class Commands {
public:
  /// What a case is answered with: JSON, of which a text is printed as it is; errors are exceptions.
  using Answer = std::function<reef::io::Json(const PlanCase&)>;

  explicit Commands(CLI::App& app) : app_(app) {}

  /// Enters a command that answers a case. `what` is its help; `example`, what follows its name in the
  /// list of commands.
  CLI::App* add(const std::string& name, const std::string& what, const std::string& example,
                Answer answer);

  /// Enters a command that takes no case, and tells a person something in one line.
  void add_hint(const std::string& name, const std::string& what, std::string line);

  /// An option of a command that names a file of this kind, to be written by write_output().
  CLI::Option* add_output(CLI::App* command, const std::string& option, Output kind,
                          std::string& file, const std::string& what);

  /// An option of a command that names a file to be read beside the case.
  CLI::Option* add_input(CLI::App* command, const std::string& option, std::string& file,
                         const std::string& what);

  /// The commands, with an example of each.
  [[nodiscard]] std::string list() const;

  /// The answer of the command that was chosen. Throws OptionError for an output that names the case, or a
  /// file of something else, and FileError for one that cannot be written, before anything is read.
  [[nodiscard]] reef::io::Json answer() const;

  [[nodiscard]] bool chosen() const { return chosen_ != nullptr; }

  /// The line of the command that tells one; empty where another was chosen, or none.
  [[nodiscard]] const std::string& hint() const { return hint_; }

private:
  CLI::App& app_;
  PlanCase case_;
  Answer chosen_;
  std::string hint_;
  struct OutputOption {
    std::string name;
    Output kind;
    const std::string* file;
  };
  std::vector<std::pair<std::string, std::string>> examples_;  // by command
  std::vector<OutputOption> outputs_;                          // of all commands
  std::vector<std::pair<std::string, const std::string*>> inputs_;
};

/// Calls `write`, which writes the file of an output, if there is to be one. What an earlier run left there goes
/// aside first, and standard error tells where. A FileError is told there too, and noted: the answer is still to come.
void write_output(const std::string& file, const std::function<void()>& write);

/// Whether a write_output() has failed.
bool output_failed();

/// An error's text in one line.
std::string in_one_line(std::string text);

void add_swap(Commands& commands);
void add_simulate(Commands& commands);
void add_measure(Commands& commands);
void add_blocks(Commands& commands);
void add_route(Commands& commands);
void add_cluster(Commands& commands);
void add_op_fence(Commands& commands);
void add_adatopk(Commands& commands);
void add_encode(Commands& commands);
void add_estimate(Commands& commands);
void add_allocate(Commands& commands);
void add_schedule(Commands& commands);
void add_messages(Commands& commands);
void add_sub_dags(Commands& commands);
void add_plan(Commands& commands);  // where there are recipes

/// A case of simulate that names a recipe of reef-train. `trace` is a file to write, or empty.
reef::io::Json simulate_recipe(const PlanCase& test, const std::string& trace);

/// A case of simulate: the model, and the ranks of its first replica that hold its operators.
reef::graph::PlacedDag place_recipe(const PlanCase& test);

/// A case of estimate that names one.
reef::io::Json estimate_recipe(const PlanCase& test);

}  // namespace reef_examples
