#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/io/json.hpp>
#include <reef/run/edge_ratios.hpp>
#include <reef/run/links.hpp>
#include <reef/trace/report.hpp>
#include <reef/trace/sink.hpp>
#include <reef/trainer/options.hpp>

#include "../support/progress.hpp"
#include "failures.hpp"
#include "link_figures.hpp"
#include "options.hpp"

namespace reef_examples {

/// A line of the metrics, by what no other line has.
struct MetricsLine {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double seconds = 0;
};

/// What a run tells about itself: a line of JSON a step, the progress bar's figures, the timeline and
/// the page at the end. Figures are means over ranks; files are written by rank 0.
class Metrics {
public:
  /// Opens the metrics; what is in them stays. Rank 0 of `ranks` writes. `own_losses`: a step's loss is each rank's own,
  /// and the mean over ranks is told. What cannot be written once the run is on its way goes to `failures`.
  Metrics(const TrainOptions& options, reef::trace::Sink& sink, int ranks, bool own_losses,
          Failures& failures);

  /// The run goes on from another, which took so many tokens and so long, and whose last line was this.
  void resume(std::uint64_t tokens, double seconds, std::optional<MetricsLine> last);

  /// Before the first step, which comes after `step` others: what the metrics have after the line at which this
  /// run goes on is put aside, and so is all that another run left. Where that line is missing, as after a full
  /// disk, the run's last one stands for it. Returns what a person should know of that; empty if nothing.
  std::string start(std::int64_t step);
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] double seconds() const { return seconds_; }

  /// After each step.
  void note(const reef::StepResult& result);
  /// What this rank's links have carried since the Trainer began, by the step that was noted last.
  void note_links(const reef::run::LinkTable& links);
  /// The ratios of edges from the step that was noted last on.
  void note_ratios(const reef::run::EdgeRatios& ratios);
  /// The held-out loss after the step that was noted last; no accuracy is known yet.
  void note_validation(double loss);
  /// The share of held-out texts whose class was told right after the step that was noted last.
  void note_accuracy(double share);

  /// What was noted, to the other ranks and to the file. On all ranks; where they step on their own, not
  /// after each step, since none should wait for the others. Returns, alike on all ranks, whether one of
  /// them wants to `stop`, or the file could not be written.
  bool tell(reef::comm::Progress& progress, bool stop);

  /// Makes the lines so far durable; returns the last of this run, if there is one. Rank 0.
  std::optional<MetricsLine> make_durable();

  /// The file could not be written.
  [[nodiscard]] bool broken() const { return broken_; }

  [[nodiscard]] Standing standing(std::int64_t steps) const {
    return {last_.step, steps, last_.loss, rate(), exposed_share_, seconds_ - seconds_before_,
            began_,     first_};
  }

  /// The last line of the metrics. On all ranks, each with the peak of its device and its links. Returns, on rank 0, a
  /// table of what the links of all carried, for a person; empty where nothing was sent.
  std::string summarise(reef::comm::Progress& progress, reef::Bytes peak, const std::vector<double>& micro_batches,
                        std::optional<double> validation_loss, const reef::run::LinkTable& links);

  /// The trace and the page, where they were asked for; returns which were written. On all ranks; without
  /// `progress` on each alone, of what rank 0 did. What is not known is left out.
  std::vector<std::string> write_timeline(reef::comm::Progress* progress,
                                          const TrainOptions& options,
                                          const std::vector<double>& micro_batches,
                                          std::optional<double> validation_loss,
                                          const std::string& sample);

private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  struct Note {
    reef::StepResult result;
    std::uint64_t tokens;  // cumulative, as are seconds
    double seconds;
    double figures[4];  // compute, communication, exposed, loss
    Channels channels{};  // of this rank in this step
    std::optional<double> validation_loss{};
    std::optional<double> validation_accuracy{};
    std::optional<reef::run::EdgeRatios> ratios{};
  };

  [[nodiscard]] double rate() const {
    return last_.seconds > 0 ? static_cast<double>(last_.tokens) / last_.seconds : 0;
  }
  void open();
  [[nodiscard]] std::string keep_own_lines();
  void close();
  void give_up(int error);
  void write(const Note& note, const double* mean, const Channels& channels);
  void write(const reef::io::Json& line);

  reef::trace::Sink& sink_;
  Failures& failures_;
  std::string path_;
  int ranks_;
  std::unique_ptr<std::FILE, Close> file_;
  bool broken_ = false;                 // the file could not be written
  std::optional<MetricsLine> written_;  // the last line of this run that the file has
  reef::trace::Recording recording_;
  reef::trace::Overlap overlap_;  // of this rank, over all steps
  std::vector<reef::trace::ReportStep> steps_;
  bool own_losses_;
  std::vector<Note> noted_;
  reef::run::LinkTable links_;      // of this rank, by the step that was noted last
  reef::run::LinkTable all_links_;  // of all ranks, at the end; rank 0
  std::optional<double> accuracy_;  // of the last evaluation
  reef::StepResult last_;
  std::uint64_t tokens_ = 0;
  std::uint64_t tokens_before_ = 0;  // of the runs that this one resumes
  double seconds_before_ = 0;
  std::int64_t began_ = 0;  // after so many steps
  double first_ = 0;        // seconds of the first after those
  double from_ = 0;
  double to_ = 0;
  double seconds_ = 0;
  double compute_ = 0;
  double communication_ = 0;
  double exposed_ = 0;
  double exposed_share_ = 0;
};

}  // namespace reef_examples
