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
  std::int64_t tokens = 0;  ///< of all ranks, since the start
  Seconds seconds = 0;      ///< since the first step began
  double loss = 0;
  double tokens_per_s = 0;
};

/// What went over a link, or in a group, of one sort.
struct ReportLink {
  std::string channel;  ///< "activation"
  std::string link;     ///< "0 -> 1"
  std::uint64_t messages = 0;
  Bytes raw = 0;   ///< of the numbers in memory
  Bytes wire = 0;  ///< sent
  std::optional<double> error;  ///< relative, of what was decoded; nothing: not measured
  Seconds exposed = 0;
};

/// What a report shows. What is empty is left out.
struct Report {
  std::string title = "Training run";
  std::string subtitle;
  std::vector<ReportStep> steps;
  std::optional<double> validation_loss;
  std::vector<Overlap> overlaps;  ///< of all steps, one for each rank
  std::vector<ReportLink> links;  ///< of all steps
  std::vector<Recording> recordings;
  Seconds origin = 0;  ///< when the first step began, by the recordings' clock
  Seconds from = 0;  ///< the stretch of the recordings that the timeline shows; all of it if empty
  Seconds to = 0;
  std::string sample;                                      ///< generated text
  std::vector<std::pair<std::string, std::string>> facts;  ///< "recipe", "ddp"
};

/// A run as one HTML page that needs nothing else: curves of loss and throughput, the lanes' time
/// line, the table of overlap, a sample of generated text.
///
/// No scripts, no outside resources; light or dark as the reader's system is. Its size does not
/// grow with the run: at most two points a pixel and some thousand boxes a lane.
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
