#include "metrics.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include <reef/comm/clock_offset.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/text.hpp>
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
  accuracy_.reset();
  if (!noted_.empty()) noted_.back().validation_loss = loss;
}

void Metrics::note_accuracy(double share) {
  accuracy_ = share;
  if (!noted_.empty()) noted_.back().validation_accuracy = share;
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
  if (note.validation_accuracy) line["validation_accuracy"] = *note.validation_accuracy;
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
  if (validation_loss && accuracy_) line["validation_accuracy"] = *accuracy_;
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
  if (validation_loss && accuracy_) report.facts.emplace_back("held-out accuracy", reef::concat(*accuracy_));
  if (!micro_batches.empty())
    report.facts.emplace_back("micro-batches a step, by rank", joined(micro_batches));
  if (dropped > 0) report.facts.emplace_back("spans no longer recorded", reef::concat(dropped));
  attempt("--report", options.report, [&] { reef::trace::write_report(options.report, report); });
  return written;
}

}  // namespace reef_examples
