#include "metrics.hpp"

#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <reef/comm/clock_offset.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trace/exchange.hpp>
#include <reef/trace/overlap.hpp>

namespace reef_examples {

namespace {

std::vector<double> mean_over_ranks(reef::comm::Progress& progress, std::vector<double> values) {
  reef::comm::all_reduce<double>(progress, "step figures", std::span<double>(values));
  for (double& value : values) value /= progress.size();
  return values;
}

/// "2, 7.5": to a tenth, and whole numbers as such.
std::string joined(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) {
    const double tenths = std::round(number * 10) / 10;
    text += reef::concat(text.empty() ? "" : ", ", tenths);
  }
  return text;
}

/// What the metrics say of a committed step.
std::optional<reef::trace::ReportStep> committed_step(const std::string& line) {
  using reef::io::require;
  try {
    const auto json = reef::io::parse_json(line, "a line of the metrics");
    if (!reef::io::value_or<bool>(json, "committed", false)) return std::nullopt;
    return reef::trace::ReportStep{require<std::int64_t>(json, "step"),
                                   require<std::int64_t>(json, "tokens"),
                                   require<double>(json, "seconds"), require<double>(json, "loss"),
                                   require<double>(json, "tokens_per_s")};
  } catch (const reef::Error&) {
    return std::nullopt;  // none of ours
  }
}

std::vector<reef::trace::Overlap> overlaps_of_ranks(reef::comm::Progress& progress,
                                                    const reef::trace::Overlap& own) {
  std::vector<reef::trace::Overlap> overlaps(static_cast<std::size_t>(progress.size()));
  for (const auto figure : reef::trace::overlap_figures) {
    const auto all = reef::comm::gather_numbers(progress, "overlap", own.*figure);
    for (std::size_t rank = 0; rank < all.size(); ++rank) overlaps[rank].*figure = all[rank];
  }
  return overlaps;
}

/// On rank 0, by its clock; nothing elsewhere.
std::vector<reef::trace::Recording> recordings_of_ranks(reef::comm::Progress& progress,
                                                        reef::trace::Recording& own) {
  reef::trace::shift(own, reef::comm::clock_offset(progress));
  const std::vector<std::byte> bytes = reef::trace::encode(own);
  const auto texts = reef::comm::gather_texts(
      progress, "recordings",
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<reef::trace::Recording> recordings;
  for (const std::string& text : texts) {
    recordings.push_back(reef::trace::decode(std::as_bytes(std::span(text))));
  }
  return recordings;
}

[[noreturn]] void refuse(const std::string& path) {
  throw reef::FileError("cannot write '", path,
                        "'.\n  fix: a path in a directory that you may write.");
}

}  // namespace

Metrics::Metrics(const TrainOptions& options, reef::trace::Sink& sink, int ranks, bool own_losses,
                 Failures& failures)
    : sink_(sink),
      failures_(failures),
      path_(options.metrics),
      ranks_(ranks),
      own_losses_(own_losses) {
  if (sink.rank() != 0) return;
  for (const auto& path : {options.trace, options.report, options.export_file}) {
    if (path.empty()) continue;
    const auto found = std::filesystem::status(path);
    if (std::filesystem::is_directory(found)) refuse(path);
    // Who reads a pipe would see its end when the probe closes it.
    if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) continue;
    try {
      const reef::io::AtomicFile probe(path);  // leaves nothing: who looks finds no half of a file
    } catch (const reef::Error&) {
      refuse(path);
    }
  }
  if (!options.checkpoint.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(options.checkpoint, failed);
    if (failed) refuse(options.checkpoint);
    const reef::io::AtomicFile probe(std::filesystem::path(options.checkpoint) / "probe");
  }
  if (!options.metrics.empty()) open();
}

void Metrics::open() {
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (file_ == nullptr) refuse(path_);
}

bool Metrics::wrote(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const bool cut = file.eof();  // by a crash, in the middle of the first
  try {
    const auto json = reef::io::parse_json(line, "a line of the metrics");
    return json.is_object() && (json.contains("step") || json.contains("summary"));
  } catch (const reef::Error&) {
    return cut && line.starts_with('{');
  }
}

void Metrics::resume(std::uint64_t tokens, double seconds) {
  tokens_ = tokens_before_ = tokens;
  seconds_ = seconds_before_ = seconds;
}

std::string Metrics::start(std::int64_t step) {
  began_ = step;
  if (file_ == nullptr || !std::filesystem::is_regular_file(path_))
    return {};  // a pipe keeps nothing
  if (std::filesystem::file_size(path_) == 0) return {};
  if (step == 0) return put_aside();
  file_.reset();
  std::string kept;
  std::int64_t cut = 0;
  bool there = false;
  std::ifstream before(path_);
  for (std::string line; std::getline(before, line) && !before.eof();) {
    const auto at = committed_step(line);
    cut += there ? 1 : 0;  // what follows is of a time after it
    if (there) continue;
    kept += line + "\n";
    if (at && at->step <= step) steps_.push_back(*at);  // for the page
    there = at && at->step == step;
  }
  before.close();
  reef::io::write_atomically(std::filesystem::canonical(path_), kept);
  open();
  if (cut == 0) return {};
  return reef::concat("metrics: the ", cut, " line(s) after that of step ", step,
                      " are cut off, since those steps are taken again");
}

/// What is there gets the next free name beside it.
std::string Metrics::put_aside() {
  namespace fs = std::filesystem;
  file_.reset();
  const fs::path now = fs::canonical(path_);
  fs::path aside;
  for (int number = 1; aside.empty() || fs::exists(fs::symlink_status(aside)); ++number)
    aside = reef::concat(now.string(), ".", number);
  fs::rename(now, aside);
  open();
  return reef::concat("metrics: those of an earlier run are now in ", aside.string());
}

void Metrics::note(const reef::StepResult& result) {
  const double end = reef::trace::now();
  const double begin = end - result.seconds;
  if (from_ == 0) {
    from_ = begin;
    first_ = result.seconds;
  }
  to_ = end;
  const auto spans = sink_.collect(recording_);
  const reef::trace::Overlap mine = reef::trace::analyze(spans, begin, end);
  overlap_ += mine;
  if (result.committed) tokens_ += result.tokens;
  seconds_ = seconds_before_ + end - from_;
  noted_.push_back(
      {result, tokens_, seconds_, {mine.compute, mine.communication, mine.exposed, result.loss}});
}

void Metrics::note_validation(double loss) {
  if (!noted_.empty()) noted_.back().validation_loss = loss;
}

bool Metrics::tell(reef::comm::Progress& progress, bool stop) {
  if (noted_.empty()) return false;
  std::vector<double> figures;
  for (const Note& note : noted_)
    figures.insert(figures.end(), std::begin(note.figures), std::end(note.figures));
  figures.push_back(stop || broken_ ? 1 : 0);
  const auto means = mean_over_ranks(progress, std::move(figures));
  for (std::size_t i = 0; i < noted_.size(); ++i) {
    const double* const mean = means.data() + 4 * i;
    if (own_losses_) noted_[i].result.loss = mean[3];
    write(noted_[i], mean);
  }
  noted_.clear();
  return means.back() > 0;
}

void Metrics::write(const Note& note, const double* mean) {
  const reef::StepResult& result = note.result;
  compute_ += mean[0];
  communication_ += mean[1];
  exposed_ += mean[2];
  last_ = result;
  exposed_share_ = result.seconds > 0 ? std::min(1.0, mean[2] / result.seconds) : 0;
  if (result.committed)
    steps_.push_back(
        {result.step, static_cast<std::int64_t>(note.tokens), note.seconds, result.loss, rate()});
  reef::io::Json line{{"step", result.step},
                      {"tokens", note.tokens},
                      {"seconds", note.seconds},
                      {"loss", result.loss},
                      {"gradient_norm", result.gradient_norm},
                      {"lr", result.learning_rate},
                      {"compute_s", mean[0]},
                      {"communication_s", mean[1]},
                      {"exposed_s", mean[2]},
                      {"tokens_per_s", rate()},
                      {"committed", result.committed}};
  if (note.validation_loss) line["validation_loss"] = *note.validation_loss;
  write(line);
}

void Metrics::summarise(reef::comm::Progress& progress, reef::Bytes peak,
                        const std::vector<double>& micro_batches,
                        std::optional<double> validation_loss) {
  const double seconds = seconds_ - seconds_before_;
  const double total = seconds > 0 ? static_cast<double>(tokens_ - tokens_before_) / seconds : 0;
  const auto peaks = reef::comm::gather_numbers(progress, "peak memory", peak);
  reef::io::Json line{{"summary", true},
                      {"final_loss", last_.loss},
                      {"tokens_per_s", total},
                      {"overlap", communication_ > 0 ? 1 - exposed_ / communication_ : 1.0},
                      {"peak_device_bytes", *std::max_element(peaks.begin(), peaks.end())},
                      {"micro_batches", micro_batches}};
  if (validation_loss) line["validation_loss"] = *validation_loss;
  write(line);
  close();
}

std::vector<std::string> Metrics::write_timeline(reef::comm::Progress* progress,
                                                 const TrainOptions& options,
                                                 const std::vector<double>& micro_batches,
                                                 std::optional<double> validation_loss,
                                                 const std::string& sample) {
  std::vector<std::string> written;
  if (options.trace.empty() && options.report.empty()) return written;
  sink_.collect(recording_);  // also of a step that was not finished
  std::vector<reef::trace::Overlap> overlaps{overlap_};
  std::vector<reef::trace::Recording> recordings;
  if (progress != nullptr) {
    overlaps = overlaps_of_ranks(*progress, overlap_);
    recordings = recordings_of_ranks(*progress, recording_);
  } else if (sink_.rank() == 0) {
    recordings = {recording_};
  }
  if (recordings.empty()) return written;
  const auto attempt = [&](const char* option, const std::string& path, const auto& write) {
    if (failures_.attempt(reef::concat(option, " ", path), write)) written.push_back(path);
  };
  if (!options.trace.empty()) {
    attempt("--trace", options.trace,
            [&] { reef::trace::write_chrome(options.trace, recordings); });
  }
  if (options.report.empty()) return written;
  reef::trace::Report report;
  report.title = "reef-train " + options.recipe;
  report.subtitle = reef::concat(ranks_, " ranks, ", last_.step, " steps");
  if (recordings.size() < static_cast<std::size_t>(ranks_)) report.subtitle += "; of rank 0 alone";
  report.steps = steps_;
  report.validation_loss = validation_loss;
  report.overlaps = std::move(overlaps);
  std::uint64_t dropped = 0;
  for (const auto& recording : recordings) dropped += recording.dropped;
  // The last three steps: what a person can read.
  report.origin = from_ - seconds_before_;
  report.from = to_ - 3 * last_.seconds;
  if (steps_.size() > 3)
    report.from = std::max(from_, report.origin + steps_[steps_.size() - 4].seconds);
  report.to = to_;
  report.recordings = std::move(recordings);
  report.sample = sample;
  report.facts = {{"recipe", options.recipe},
                  {"ranks", reef::concat(ranks_)},
                  {"model", reef::concat(options.layers, " layers, ", options.heads, " heads, ",
                                         options.channels, " channels, context ", options.context)},
                  {"tokens a step", reef::concat(last_.tokens)},
                  {"learning rate", reef::concat(options.lr)},
                  {"seed", reef::concat(options.seed)}};
  if (!micro_batches.empty())
    report.facts.emplace_back("micro-batches a step, by rank", joined(micro_batches));
  if (dropped > 0) report.facts.emplace_back("spans no longer recorded", reef::concat(dropped));
  attempt("--report", options.report, [&] { reef::trace::write_report(options.report, report); });
  return written;
}

void Metrics::write(const reef::io::Json& line) {
  if (file_ == nullptr) return;
  reef::io::Json numbers = line;
  for (reef::io::Json& value : numbers) {  // JSON has none that is not finite
    if (value.is_number_float() && !reef::is_finite(value.get<double>())) value = nullptr;
  }
  const bool written = std::fprintf(file_.get(), "%s\n", numbers.dump().c_str()) >= 0;
  if (!written || std::fflush(file_.get()) != 0) give_up(errno);
}

/// On some file systems a write fails only here. Who removes the file meanwhile removes all lines.
void Metrics::close() {
  if (file_ == nullptr) return;
  struct ::stat status {};
  const bool removed = ::fstat(::fileno(file_.get()), &status) == 0 && status.st_nlink == 0 &&
                       S_ISREG(status.st_mode);
  if (std::fclose(file_.release()) != 0) return give_up(errno);
  if (removed) give_up(ENOENT);
}

void Metrics::give_up(int error) {
  file_.reset();
  broken_ = true;
  failures_.add(reef::concat("--metrics ", path_),
                reef::concat("cannot write it: ", std::strerror(error),
                             ".\n  fix: free space there, or give another --metrics."));
}

}  // namespace reef_examples
