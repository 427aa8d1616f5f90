#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

/// One committed optimizer step of a run.
struct ReportStep {
  std::int64_t step = 0;
  std::int64_t tokens = 0;  ///< tokens of all ranks since the start of the run
  Seconds seconds = 0;      ///< seconds since the first step began
  double loss = 0;
  double tokens_per_s = 0;
};

/// The messages of one kind (activations, gradients, ...) over one link, or within one group of ranks.
struct ReportLink {
  std::string channel;  ///< kind of the messages, such as "activation"
  std::string link;     ///< link, such as "0 -> 1"
  std::uint64_t messages = 0;
  Bytes raw = 0;                ///< bytes of the numbers in memory, before encoding
  Bytes wire = 0;               ///< bytes sent over the link
  std::optional<double> error;  ///< relative error of the decoded numbers; nothing if not measured
  Seconds exposed = 0;
};

/// The content of a report on a run. The page leaves out parts that are empty.
struct Report {
  std::string title = "Training run";
  std::string subtitle;
  std::vector<ReportStep> steps;
  std::optional<double> validation_loss;
  std::vector<Overlap> overlaps;  ///< use of time (computation, communication) over all steps, one entry for each rank
  std::vector<ReportLink> links;  ///< messages of all steps, by kind and link
  std::vector<Recording> recordings;
  Seconds origin = 0;  ///< time at which the first step began, in seconds by the recordings' clock
  Seconds from = 0;    ///< begin of the part [from, to) of the recordings that the timeline shows; all if it is empty
  Seconds to = 0;
  std::string sample;                                      ///< text that the trained model has generated
  /// Facts about the run, name and value, such as "recipe", "ddp".
  std::vector<std::pair<std::string, std::string>> facts;
};

/// Formats a run as one self-contained HTML page: curves of loss and throughput, the timeline of the queues (lanes),
/// the table of overlap, and a sample of generated text.
///
/// The page has no scripts and no outside resources; it is light or dark as the reader's system is. Its size
/// does not grow with the run: at most two points for each pixel and some thousand boxes for each lane.
std::string report_html(const Report& report);

/// Writes report_html to a file, atomically. Throws FileError.
///
/// \code
/// // given: const trace::Recording& recording, const trace::Overlap& overlap
/// trace::Report report;
/// report.title = "GPT, 4 ranks";
/// report.steps.push_back({.step = 1, .tokens = 4096, .seconds = 0.5, .loss = 5.5});
/// report.overlaps = {overlap};
/// report.recordings = {recording};
/// trace::write_report("report.html", report);
/// \endcode
inline void write_report(const std::filesystem::path& path, const Report& report) {
  io::write_atomically(path, report_html(report));
}

}  // namespace trace
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trace/report.ipp>
#endif
