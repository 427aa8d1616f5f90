#include "agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/version.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/json.hpp>
#include <reef/io/mapped_file.hpp>
#include <reef/plan/pipeline_schedules.hpp>

#include "../support/output_places.hpp"
#include "../support/tokenizer.hpp"
#include "../support/weight_files.hpp"

namespace reef_examples {

namespace {

namespace fs = std::filesystem;
using reef::comm::SharedFact;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string name_of(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return names.empty() ? option.get_name() : "--" + names.front();
}

/// A checkpoint after so many steps; of 0, or of as many as there are, at the end.
std::string period_of_checkpoints(const TrainOptions& options) {
  const std::int64_t every = options.checkpoint_every;
  return every == 0 || every >= options.steps ? "at the end" : reef::concat(every);
}

/// What counts: as given, numbers as the parsing has spelled them, else the default. Empty: neither.
std::string value_of(const CLI::Option& option, const TrainOptions& options) {
  const std::string name = name_of(option);
  if (name == "--model")
    return reef::concat(options.layers, "x", options.heads, "x", options.channels);
  if (name == "--batch") return reef::concat(options.samples());
  if (name == "--warmup") return reef::concat(options.warmup_steps());
  if (name == "--checkpoint-every") return period_of_checkpoints(options);
  if (option.get_expected_max() == 0) return option.count() > 0 ? "given" : "";
  if (option.count() == 0) return option.get_default_str();
  std::string text;
  for (const std::string& result : option.reduced_results()) {
    text += (text.empty() ? "" : " ") + result;
  }
  return text.empty() ? "''" : text;
}

/// What is in a folder of weights, as far as names and sizes tell it: the weights themselves are compared by the
/// Trainer.
std::string contents_of(const fs::path& folder) {
  std::map<std::string, std::uintmax_t> files;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->path().extension() == ".safetensors") {
      files[entry->path().filename().string()] = entry->file_size(code);
    }
  }
  std::string text;
  for (const auto& [name, bytes] : files) {
    text += reef::concat(text.empty() ? "" : ", ", name, " of ", bytes, " bytes");
  }
  return text;
}

/// The same for the same contents, under whatever name.
SharedFact alike_of_files(const std::string& name, const std::string& given,
                     const std::vector<fs::path>& files) {
  if (given.empty()) return {name, "", "not given"};
  std::uint32_t crc = 0;
  for (const fs::path& file : files) {
    std::error_code ignored;
    if (fs::is_directory(file, ignored)) {
      const std::string contents = contents_of(file);
      return {name, contents, reef::concat(given, " (", contents, ")")};
    }
    if (!fs::is_regular_file(file, ignored)) {
      return {name, given, given + (fs::exists(file, ignored) ? "" : ", which is not there")};
    }
    if (fs::file_size(file, ignored) > 0) {
      const reef::io::MappedFile mapped(file);
      crc = reef::io::crc32c(mapped.bytes(), crc);
    }
  }
  return {name, reef::concat("checksum ", crc), reef::concat(given, " (checksum ", crc, ")")};
}

SharedFact alike_of_tokenizer(const TrainOptions& options) {
  const auto [kind, place] = split_tokenizer_name(options.tokenizer);
  std::vector<fs::path> files;
  for (const fs::path& file : files_of_tokenizer(options.tokenizer)) {
    if (file == place || exists(file)) files.push_back(file);
  }
  if (files.empty()) return {"--tokenizer", kind, options.tokenizer};
  SharedFact alike = alike_of_files("--tokenizer", options.tokenizer, files);
  alike.value = kind + ", " + alike.value;
  return alike;
}

/// As it is meant: acco adapts unless told otherwise. How many micro-batches are fixed is each rank's affair.
std::string accumulation_of(const TrainOptions& options) {
  const bool adapts =
      options.accumulation ? options.accumulation->adapts : options.recipe == "acco";
  const int most = options.accumulation ? options.accumulation->max_micro_batches : 0;
  return !adapts ? "fixed" : most == 0 ? "adaptive" : reef::concat("cap:", most);
}

/// What a rank may have of its own: speeds and memory, of which the ranks agree on the least; and its share of
/// the work.
bool is_of_a_rank(std::string_view name) {
  return is_one_of(name, {"--help", "--threads", "--slow", "--device-memory", "--device-link",
                          "--micro-batches"});
}

/// As JSON can hold it.
std::string as_text(const std::string& value) {
  try {
    static_cast<void>(reef::io::Json(value).dump());
    return value;
  } catch (const reef::io::Json::exception&) {
    return reef::concat("bytes with the checksum ",
                        reef::io::crc32c(std::as_bytes(std::span(value))));
  }
}

}  // namespace

void require_same_options(const CLI::App& app, const TrainOptions& options) {
  const reef::comm::Communicator ranks;
  if (options.planned_ranks > 0 && options.planned_ranks != ranks.size()) {
    throw reef::OptionError("--plan ", options.plan, " is for ", options.planned_ranks, " ranks, and there are ", ranks.size(),
                            ".\n  why: its micro-batches are shares of a step.\n  fix: mpiexec -n ", options.planned_ranks,
                            ", or plan for as many ranks as there are.");
  }
  if (ranks.size() == 1) return;
  std::vector<SharedFact> mine{{"version of reef-train", std::string(reef::version)}};
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = name_of(*option);
    const std::string value = value_of(*option, options);
    if (is_of_a_rank(name) || name == "--data")
      continue;  // --data: with the Trainer's, when it is read
    if (name == "--tokenizer") {
      mine.push_back(alike_of_tokenizer(options));
    } else if (name == "--accumulate") {
      mine.push_back({name, accumulation_of(options)});
    } else if (name == "--init") {
      mine.push_back(alike_of_files(name, value, files_of_weights(value)));
    } else if (name == "--init-adapter" && !value.empty()) {
      mine.push_back(alike_of_files(name, value, files_of_adapter(value)));
    } else if (is_one_of(name, {"--network", "--profile", "--order", "--graph"})) {
      mine.push_back(alike_of_files(name, value, {value}));
    } else if (name ==
               "--checkpoint") {  // it may have other names: that it is one directory is looked at
      mine.push_back({name, value.empty() ? "" : "given", value.empty() ? "not given" : value});
    } else {
      mine.push_back({name, value, value.empty() ? "not given" : value});
    }
  }
  reef::comm::ProgressOptions plain;
  plain.transport = reef::comm::Transport::messages;
  std::string difference;
  {
    reef::comm::Progress progress(ranks, plain);
    difference = reef::comm::difference(progress, "command lines", mine);
  }
  if (difference.empty()) return;
  throw reef::OptionError("the command lines are not the same on all ranks: ", difference,
                          ".\n  fix: start every rank with the same options.");
}

void take_figures_of_rank(TrainOptions& options) {
  const reef::comm::Communicator ranks;
  const auto own = [&ranks](const char* name, const auto& list, auto otherwise) {
    if (list.empty()) return otherwise;
    if (list.size() == 1) return list.front();
    if (static_cast<int>(list.size()) != ranks.size()) {
      throw reef::OptionError(name, " has ", list.size(), " numbers, and there ",
                              ranks.size() == 1 ? "is 1 rank" : reef::concat("are ", ranks.size(), " ranks"),
                              ".\n  fix: one number for all, or one for each rank, rank 0 first.");
    }
    return list[static_cast<std::size_t>(ranks.rank())];
  };
  options.device_memory = own("--device-memory", options.device_memories, std::uint64_t{0});
  options.device_link = own("--device-link", options.device_links, 0.0);
}

void require_outputs(const TrainOptions& options) {
  const reef::comm::Communicator ranks;
  std::string problem;
  if (ranks.rank() == 0) {
    try {
      for (const auto& path : {options.trace, options.report, options.export_file}) {
        if (!path.empty()) require_room_in_file(path);
      }
      if (!options.export_adapter.empty()) require_writable_folder(options.export_adapter);
      if (!options.metrics.empty()) require_place(options.metrics);  // who writes it opens it
      if (!options.checkpoint.empty()) require_writable_folder(options.checkpoint);
      std::error_code none;
      if (!options.profile.empty() && !fs::exists(options.profile, none)) require_writable_file(options.profile);
    } catch (const reef::FileError& error) {
      problem = error.what();
    }
  }
  if (ranks.size() > 1) {
    reef::comm::ProgressOptions plain;
    plain.transport = reef::comm::Transport::messages;
    reef::comm::Progress progress(ranks, plain);
    problem = reef::comm::broadcast_text(progress, "outputs that cannot be written", std::move(problem));
    if (!problem.empty()) reef::comm::barrier(progress, "the outputs are told");  // they end together
  }
  if (!problem.empty()) throw reef::FileError(problem);
}

std::map<std::string, std::string> options_of_the_run(const CLI::App& app,
                                                      const TrainOptions& options) {
  std::map<std::string, std::string> found;
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = name_of(*option);
    const auto begins = [&name](const char* with) { return name.starts_with(with); };
    // Of files, speeds and what is told no number depends; the text, the batch and the context are kept apart.
    // Of the weights that a run begins with the shapes remain: a resume is to have the same. A pipeline that updates
    // within a step has other numbers, by its stages.
    const bool asynchronous = reef::plan::is_asynchronous_schedule(options.pipeline);
    if (name == "--pipeline") {
      found[name] = asynchronous ? options.pipeline : "updates once a step";
      continue;
    }
    const bool is_aside =
        begins("--checkpoint") || begins("--eval") || (begins("--prompt") && name != "--prompts") ||
        (!asynchronous && is_one_of(name, {"--stages", "--micro-batches-per-update"})) ||
        is_one_of(name, {"--help", "--version", "--export", "--export-adapter", "--init-adapter", "--metrics", "--trace", "--report",
                         "--measure-error", "--record-edges", "--resume", "--deadline", "--network", "--threads", "--slow", "--order", "--unit", "--layout",
                         "--device-memory", "--device-link", "--device-flops", "--profile", "--activations", "--data",
                         "--batch", "--context"});
    if (is_aside) continue;
    const std::string value = value_of(*option, options);
    if (name == "--init") {
      if (options.checkpoint.empty()) continue;  // they are read whole for it
      found[name] =
          value.empty() ? "none" : alike_of_files(name, value, files_of_weights(value)).value;
      continue;
    }
    if (name == "--graph" && !value.empty()) {  // the file may have another name, and other blanks
      found[name] = reef::concat("a model with the hash ", options.graph_hash);
      found["optimizers of --graph"] = options.graph_optimizers.empty() ? "none" : as_text(options.graph_optimizers);
      continue;
    }
    found[name] = name == "--tokenizer"       ? alike_of_tokenizer(options).value
                  : name == "--accumulate"    ? accumulation_of(options)
                  : name == "--micro-batches" ? reef::concat(options.micro_batches)
                  : value.empty()             ? "not given"
                                              : as_text(value);
  }
  return found;
}

}  // namespace reef_examples
