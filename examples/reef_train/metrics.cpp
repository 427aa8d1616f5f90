#include "metrics.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <reef/comm/clock_offset.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trace/encoding.hpp>
#include <reef/trace/overlap.hpp>

#include "../support/earlier_files.hpp"
#include "../support/output_places.hpp"
#include "ratio_log.hpp"

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

/// A step as the metrics tell it.
struct Line {
  reef::trace::ReportStep step;
  bool committed = false;
};

/// Nothing where it is no line of ours.
std::optional<Line> line_of(const std::string& text) {
  using reef::io::require;
  try {
    const auto json = reef::io::parse_json(text, "a line of the metrics");
    const auto number = [&](const char* key) {  // null stands for one that is not finite
      return json.at(key).is_number() ? json.at(key).get<double>()
                                      : std::numeric_limits<double>::quiet_NaN();
    };
    return Line{{require<std::int64_t>(json, "step"), require<std::int64_t>(json, "tokens"),
                 require<double>(json, "seconds"), number("loss"), number("tokens_per_s")},
                reef::io::value_or<bool>(json, "committed", false)};
  } catch (const reef::Error&) {
  } catch (const reef::io::Json::exception&) {
  }
  return std::nullopt;
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

}  // namespace

Metrics::Metrics(const TrainOptions& options, reef::trace::Sink& sink, int ranks, bool own_losses,
                 Failures& failures)
    : sink_(sink),
      failures_(failures),
      path_(options.metrics),
      ranks_(ranks),
      own_losses_(own_losses) {
  if (sink.rank() == 0 && !options.metrics.empty()) open();
}

/// To add lines, of this job alone. A job that was killed a moment ago is waited for, and so is who will read a pipe.
void Metrics::open() {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::seconds(3);
  const auto until_read = Clock::now() + std::chrono::seconds(1);
  require_place(path_);
  for (;;) {
    auto opened = reef::io::detail::open_to_write(path_, O_CREAT | O_APPEND);
    const int error = errno;
    if (!opened && error == ENXIO && Clock::now() < until_read) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (!opened) reef::io::detail::throw_write_error(path_, error);
    std::unique_ptr<std::FILE, Close> file(::fdopen(opened.get(), "a"));
    if (file == nullptr) reef::io::detail::throw_write_error(path_, errno);
    opened.release();
    struct ::stat here {};
    struct ::stat named {};
    const int descriptor = ::fileno(file.get());
    const bool regular = ::fstat(descriptor, &here) == 0 && S_ISREG(here.st_mode);
    const bool held =
        regular && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (held && Clock::now() > until) {
      throw reef::FileError("another job writes its metrics to '", path_,
                            "'.\n  why: the lines of two runs would be mixed.\n  fix: wait for its "
                            "end, or give another --metrics.");
    }
    const bool is_named = !regular || (::stat(path_.c_str(), &named) == 0 &&
                                       here.st_dev == named.st_dev && here.st_ino == named.st_ino);
    if (!held && is_named) {
      file_ = std::move(file);
      return;
    }
    if (held) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void Metrics::resume(std::uint64_t tokens, double seconds, std::optional<MetricsLine> last) {
  tokens_ = tokens_before_ = tokens;
  seconds_ = seconds_before_ = seconds;
  written_ = last;
}

std::string Metrics::start(std::int64_t step) {
  began_ = step;
  // A pipe keeps nothing.
  return file_ == nullptr || !keeps_something(path_) ? std::string() : keep_own_lines();
}

/// This run goes on after the line with the tokens and the seconds that its checkpoint has, or else after the last that
/// it wrote before: none where it begins, or where the file is of another. What is renamed or replaced stays locked
/// until its successor is.
std::string Metrics::keep_own_lines() {
  namespace fs = std::filesystem;
  const fs::path now = fs::canonical(path_);
  std::ifstream before(now, std::ios::binary);
  std::string text;
  std::size_t kept = 0;  // bytes
  std::size_t steps = 0;
  bool whole = false;
  const std::optional<MetricsLine> last = std::exchange(written_, std::nullopt);
  for (std::string line; std::getline(before, line); text += line + "\n") {
    const auto at = before.eof() || began_ == 0 || whole ? std::nullopt : line_of(line);
    if (before.eof()) {  // a crash in the middle of it
      text += line;
      break;
    }
    if (!at) continue;
    if (at->committed) steps_.push_back(at->step);  // for the page
    const auto is = [&at](std::int64_t tokens, double seconds) {
      return at->step.tokens == tokens && at->step.seconds == seconds;
    };
    whole = is(static_cast<std::int64_t>(tokens_), seconds_);
    if (!whole && !(last && is(last->tokens, last->seconds))) continue;
    kept = text.size() + line.size() + 1;
    steps = steps_.size();
    written_ = MetricsLine{at->step.step, at->step.tokens, at->step.seconds};
  }
  before.close();
  steps_.resize(steps);
  const std::string_view cut = std::string_view(text).substr(kept);
  if (kept == 0 && !cut.empty()) {
    const fs::path aside = next_free_name(now);
    fs::rename(now, aside);
    open();
    return reef::concat("metrics: those of an earlier run are now in ", aside.string());
  }
  std::string told;
  if (!whole && kept > 0 && written_->step < began_) {
    told = reef::concat("metrics: there are no lines of the steps ", written_->step + 1, " to ",
                        began_, ": those to come are added after that of step ", written_->step);
  }
  if (cut.empty()) return told;
  const fs::path aside = next_free_name(now);
  reef::io::write_atomically(aside, cut);
  reef::io::write_atomically(now, std::string_view(text).substr(0, kept));
  open();
  if (!told.empty()) return reef::concat(told, "; what came after it is now in ", aside.string());
  return reef::concat("metrics: the ",
                      std::count(cut.begin(), cut.end(), '\n') + (cut.ends_with('\n') ? 0 : 1),
                      " line(s) after that of step ", began_, " are now in ", aside.string(),
                      ", since those steps are taken again");
}

std::optional<MetricsLine> Metrics::make_durable() {
  struct ::stat status {};
  const int descriptor = file_ == nullptr ? -1 : ::fileno(file_.get());
  const bool keeps =
      descriptor >= 0 && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (keeps && ::fsync(descriptor) != 0) give_up(errno);
  return written_;
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

void Metrics::note_links(const reef::run::LinkTable& links) {
  if (!noted_.empty()) noted_.back().channels = channels_of(links - links_);
  links_ = links;
}

void Metrics::note_ratios(const reef::run::EdgeRatios& ratios) {
  if (!noted_.empty()) noted_.back().ratios = ratios;
}

void Metrics::note_validation(double loss) {
  if (!noted_.empty()) noted_.back().validation_loss = loss;
}

bool Metrics::tell(reef::comm::Progress& progress, bool stop) {
  if (noted_.empty()) return false;
  std::vector<double> figures;
  for (const Note& note : noted_) {
    figures.insert(figures.end(), std::begin(note.figures), std::end(note.figures));
    for (const double figure : figures_of(note.channels)) figures.push_back(figure * progress.size());  // their sum is told
  }
  figures.push_back(stop || broken_ ? 1 : 0);
  const auto means = mean_over_ranks(progress, std::move(figures));
  for (std::size_t i = 0; i < noted_.size(); ++i) {
    const double* const mean = means.data() + (4 + link_figures) * i;
    if (own_losses_) noted_[i].result.loss = mean[3];
    write(noted_[i], mean, channels_of_figures(mean + 4));
  }
  noted_.clear();
  return means.back() > 0;
}

void Metrics::write(const Note& note, const double* mean, const Channels& channels) {
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
  if (reef::io::Json links = json_of(channels, ranks_); !links.empty()) line["links"] = std::move(links);
  if (note.ratios) line["ratios"] = RatioLog::json_of(*note.ratios);
  if (note.validation_loss) line["validation_loss"] = *note.validation_loss;
  write(line);
  if (file_ != nullptr)
    written_ = MetricsLine{result.step, static_cast<std::int64_t>(note.tokens), note.seconds};
}

std::string Metrics::summarise(reef::comm::Progress& progress, reef::Bytes peak, const std::vector<double>& micro_batches,
                               std::optional<double> validation_loss, const reef::run::LinkTable& links) {
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
  all_links_ = links_of_ranks(progress, links);
  reef::io::Json list = json_of(all_links_);
  const bool sent = !list.empty();
  if (sent) line["links"] = std::move(list);
  write(line);
  close();
  return sent ? all_links_.text() : std::string();
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
    std::string aside;
    const auto in_place = [&] { aside = write_in_place(path, write); };
    if (failures_.attempt(reef::concat(option, " ", path), in_place))
      written.push_back(path + aside);
  };
  if (!options.trace.empty()) {
    attempt("--trace", options.trace,
            [&] { reef::trace::write_chrome(options.trace, recordings); });
  }
  if (options.report.empty()) return written;
  reef::trace::Report report;
  report.title = "reef-train " + options.recipe;
  report.subtitle = reef::concat(ranks_, ranks_ == 1 ? " rank, " : " ranks, ", last_.step, last_.step == 1 ? " step" : " steps");
  if (recordings.size() < static_cast<std::size_t>(ranks_)) report.subtitle += "; of rank 0 alone";
  report.steps = steps_;
  report.validation_loss = validation_loss;
  report.overlaps = std::move(overlaps);
  report.links = report_links(all_links_);
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
                  {"model", reef::concat(text_of_model(options), ", context ", options.context)},
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
