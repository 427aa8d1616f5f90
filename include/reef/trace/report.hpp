#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trace/detail/html.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/span.hpp>

namespace reef::inline v0::trace {

/// One committed optimizer step of a run.
struct ReportStep {
  std::int64_t step = 0;
  std::int64_t tokens = 0;  // of all ranks, since the start
  Seconds seconds = 0;      // since the first step began
  double loss = 0;
  double tokens_per_s = 0;
};

/// What a report shows. What is empty is left out.
struct Report {
  std::string title = "Training run";
  std::string subtitle;
  std::vector<ReportStep> steps;
  std::optional<double> validation_loss;
  std::vector<Overlap> overlaps;  // of the whole run, one for each rank
  std::vector<Recording> recordings;
  Seconds from = 0;  // the stretch of the recordings that the timeline shows; all of it if empty
  Seconds to = 0;
  std::string sample;                                      // generated text
  std::vector<std::pair<std::string, std::string>> facts;  // "recipe", "ddp"
};

namespace detail {

/// What a lane's row shows: spans of one activity that the eye cannot part are one.
struct Box {
  Seconds begin;
  Seconds end;
  Activity activity;
  std::string_view name;
  Bytes bytes;
  int count;
};

/// The boxes of one track within [from, to), longer ones first where they nest. Spans closer than
/// `blur` are merged, and a span shorter than that joins what it touches.
inline std::vector<Box> boxes_of(const Recording& recording, std::size_t track, Seconds from,
                                 Seconds to, Seconds blur) {
  std::vector<const Span*> spans;
  for (const Span& span : recording.spans) {
    if (span.track == track && span.begin < to && span.end > from) spans.push_back(&span);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
  });
  std::vector<Box> boxes;
  for (const Span* span : spans) {
    const Seconds begin = std::max(from, span->begin);
    const Seconds end = std::min(to, span->end);
    if (!boxes.empty()) {
      Box& last = boxes.back();
      const bool small = end - begin < blur || last.end - last.begin < blur;
      if (last.activity == span->activity && small && begin - last.end < blur) {
        last.end = std::max(last.end, end);
        last.bytes += span->bytes;
        last.count += 1;
        continue;
      }
    }
    boxes.push_back({begin, end, span->activity, recording.name_of(*span), span->bytes, 1});
  }
  return boxes;
}

inline std::string legend(std::span<const Recording> recordings) {
  std::array<bool, activity_count> seen{};
  for (const Recording& recording : recordings) {
    for (const Span& span : recording.spans) seen[static_cast<std::size_t>(span.activity)] = true;
  }
  std::string out = "<div class=\"legend\">";
  for (const Activity activity :
       {Activity::compute, Activity::communication, Activity::copy, Activity::wait}) {
    if (!seen[static_cast<std::size_t>(activity)]) continue;
    const std::string name(trace::name_of(activity));
    out += concat("<span><i style=\"background:var(--", name, ")\"></i>", name, "</span>");
  }
  return out + "</div>";
}

/// The lanes of all ranks over one stretch of time, as an inline SVG.
inline std::string timeline_svg(const Report& report) {
  constexpr double left = 150;
  constexpr double width = 1120;
  constexpr double lane = 15;
  Seconds from = report.from;
  Seconds to = report.to;
  if (!(from < to)) {
    from = first_begin(report.recordings);
    to = from;
    for (const Recording& recording : report.recordings) {
      for (const Span& span : recording.spans) to = std::max(to, span.end);
    }
  }
  if (!(from < to)) return "";
  const double scale = (width - left - 10) / (to - from);
  const auto px = [&](Seconds t) { return left + (t - from) * scale; };
  std::string body;
  double y = 4;
  for (const Recording& recording : report.recordings) {
    body += concat("<text class=\"rank\" x=\"0\" y=\"", fixed(y + 12, 1), "\">rank ",
                   recording.rank, "</text>");
    for (std::size_t track = 0; track < recording.tracks.size(); ++track) {
      const std::vector<Box> boxes = boxes_of(recording, track, from, to, 0.6 / scale);
      if (boxes.empty()) continue;
      body +=
          concat("<text class=\"name end\" x=\"142\" y=\"", fixed(y + 11, 1), "\">",
                 html_escape(std::string_view(recording.tracks[track]).substr(0, 16)), "</text>");
      body += concat("<rect class=\"row\" x=\"150\" y=\"", fixed(y, 1),
                     "\" width=\"960\" height=\"13\"/>");
      for (const Box& box : boxes) {
        const std::string activity(trace::name_of(box.activity));
        body += concat("<rect class=\"span ", activity, "\" x=\"", fixed(px(box.begin), 2),
                       "\" y=\"", fixed(y, 1), "\" width=\"",
                       fixed(std::max(0.4, (box.end - box.begin) * scale), 2),
                       "\" height=\"13\"><title>", html_escape(box.name));
        if (box.count > 1) body += concat(" and ", box.count - 1, " more");
        body += concat("\n", activity, ", ", format_seconds(box.end - box.begin));
        if (box.bytes != 0) body += concat(", ", format_bytes(box.bytes));
        body += concat("\nat ", format_seconds(box.begin - from), "</title></rect>");
      }
      y += lane;
    }
    y += 9;
  }
  std::string axis;
  for (const double at : ticks(0, to - from, 10)) {
    const std::string x = fixed(px(from + at), 1);
    axis += concat("<line class=\"grid\" x1=\"", x, "\" x2=\"", x, "\" y1=\"0\" y2=\"", fixed(y, 1),
                   "\"/><text class=\"tick mid\" x=\"", x, "\" y=\"", fixed(y + 14, 1), "\">",
                   at == 0 ? "0" : format_seconds(at), "</text>");
  }
  return concat("<div class=\"card\"><figure>", legend(report.recordings),
                "<div class=\"scroll\"><svg viewBox=\"0 0 1120 ", fixed(y + 20, 0),
                "\" role=\"img\" aria-label=\"Timeline of all lanes\">", axis, body,
                "</svg></div></figure></div>");
}

inline std::string overlap_html(std::span<const Overlap> ranks) {
  std::string out =
      "<div class=\"card scroll\"><table><tr><th>rank</th><th>wall s</th><th>compute s</th>"
      "<th>communication s</th><th>overlap s</th><th>exposed s</th><th>copy s</th><th>idle s</th>"
      "<th>hidden</th><th>compute, exposed, idle</th></tr>";
  const auto row = [&](const std::string& rank, const Overlap& o, std::string_view css) {
    out += concat("<tr class=\"", css, "\"><td>", rank, "</td>");
    for (const Seconds s :
         {o.wall, o.compute, o.communication, o.overlap(), o.exposed, o.copy, o.idle()}) {
      out += concat("<td>", fixed(s, 3), "</td>");
    }
    out +=
        concat("<td>", fixed(100 * o.hidden(), 1),
               "%</td><td><svg class=\"stack\" viewBox=\"0 0 100 8\" "
               "preserveAspectRatio=\"none\"><rect class=\"other\" width=\"100\" height=\"8\"/>");
    const double wall = o.wall > 0 ? o.wall : 1;
    out += concat("<rect class=\"compute\" width=\"", fixed(100 * o.compute / wall, 2),
                  "\" height=\"8\"/>");
    out += concat("<rect class=\"communication\" x=\"", fixed(100 * o.compute / wall, 2),
                  "\" width=\"", fixed(100 * o.exposed / wall, 2),
                  "\" height=\"8\"/></svg></td></tr>");
  };
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    row(std::to_string(rank), ranks[rank], "");
  if (ranks.size() > 1) row("mean", mean(ranks), "mean");
  return out + "</table></div>";
}

}  // namespace detail

/// A run as one HTML page that needs nothing else: curves of loss and throughput, the lanes' time
/// line, the table of overlap, a sample of generated text.
///
/// No scripts, no outside resources; light or dark as the reader's system is. Its size does not
/// grow with the run: at most two points a pixel and some thousand boxes a lane.
inline std::string report_html(const Report& report) {
  using namespace detail;
  std::string out = concat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>",
      html_escape(report.title), "</title><style>");
  out.append(report_style).append("</style></head><body><main><h1>");
  out += html_escape(report.title) + "</h1>";
  if (!report.subtitle.empty()) {
    out += concat("<p class=\"muted\" style=\"margin:0\">", html_escape(report.subtitle), "</p>");
  }

  std::string tiles;
  const auto tile = [&](const std::string& value, std::string_view what) {
    tiles += concat("<div class=\"tile\"><b>", value, "</b><span>", what, "</span></div>");
  };
  if (report.validation_loss.has_value()) {
    tile(fixed(*report.validation_loss, 3), "held-out loss, nats per token");
  }
  if (!report.steps.empty()) {
    const ReportStep& last = report.steps.back();
    tile(fixed(last.loss, 3), "loss of the last step");
    if (last.seconds > 0)
      tile(compact(static_cast<double>(last.tokens) / last.seconds), "tokens/s");
    tile(format_seconds(last.seconds), "training time");
    tile(compact(static_cast<double>(last.tokens)), "tokens");
  }
  if (!report.overlaps.empty()) {
    const Overlap all = mean(report.overlaps);
    tile(fixed(100 * all.exposed_share(), 1) + "%", "of the time, communication is exposed");
    tile(fixed(100 * all.hidden(), 1) + "%", "of the communication is hidden");
  }
  if (!tiles.empty()) out += concat("<div class=\"tiles\">", tiles, "</div>");

  if (!report.steps.empty()) {
    Chart loss{"Loss", "nats per token, running mean over the raw values", {}, {}, "step", 0.9,
               false};
    Chart speed{"Throughput", "tokens/s over all ranks", {}, {}, "step", 0.9, true};
    if (report.steps.size() < 20) loss.smoothing = speed.smoothing = 0;
    for (const ReportStep& step : report.steps) {
      loss.x.push_back(static_cast<double>(step.step));
      loss.y.push_back(step.loss);
      speed.x.push_back(static_cast<double>(step.step));
      speed.y.push_back(step.tokens_per_s);
    }
    out += concat("<div class=\"charts\">", chart_svg(loss), chart_svg(speed), "</div>");
  }
  if (const std::string timeline = timeline_svg(report); !timeline.empty()) {
    out += "<h2>What each lane did</h2>" + timeline;
  }
  if (!report.overlaps.empty()) {
    out += "<h2>Computation and communication</h2>" + overlap_html(report.overlaps);
  }
  if (!report.sample.empty()) {
    out += concat("<h2>Generated text</h2><div class=\"card\"><pre>", html_escape(report.sample),
                  "</pre></div>");
  }
  if (!report.facts.empty()) {
    out += "<h2>The run</h2><div class=\"card scroll\"><table class=\"facts\">";
    for (const auto& [name, value] : report.facts) {
      out += concat("<tr><td>", html_escape(name), "</td><td>", html_escape(value), "</td></tr>");
    }
    out += "</table></div>";
  }
  return out + "</main></body></html>\n";
}

/// Writes report_html to a file, atomically. Throws FileError.
inline void write_report(const std::filesystem::path& path, const Report& report) {
  io::write_atomically(path, report_html(report));
}

}  // namespace reef::inline v0::trace
