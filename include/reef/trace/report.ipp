#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/trace/detail/html.hpp>
#include <reef/trace/detail/timeline.hpp>
#include <reef/trace/report.hpp>
#include <reef/trace/waits.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

namespace detail {

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
    out += concat("<rect class=\"exposed\" x=\"", fixed(100 * o.compute / wall, 2), "\" width=\"",
                  fixed(100 * o.exposed / wall, 2), "\" height=\"8\"/></svg></td></tr>");
  };
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    row(std::to_string(rank), ranks[rank], "");
  if (ranks.size() > 1) row("mean", mean(ranks), "mean");
  return out + "</table></div>";
}

/// Of each rank the share of the time that it computes, and the three things that it waited for longest.
inline std::string waits_html(std::span<const Waits> ranks) {
  std::string out =
      "<div class=\"card scroll\"><table><tr><th>rank</th><th>computes s</th><th>waits s</th><th>bubble</th>"
      "<th>longest for</th><th>then for</th><th>then for</th></tr>";
  for (const Waits& rank : ranks) {
    out += concat("<tr><td>", rank.rank, "</td><td>", fixed(rank.busy, 3), "</td><td>",
                  fixed(rank.wall - rank.busy, 3), "</td><td>", fixed(100 * rank.bubble(), 1), "%</td>");
    for (std::size_t k = 0; k < 3; ++k) {
      out += "<td>";
      if (k < rank.waits.size()) {
        const Wait& wait = rank.waits[k];
        out += concat(html_escape(wait.what), " ", fixed(wait.seconds, 3), " s, ", wait.times, " times");
      }
      out += "</td>";
    }
    out += "</tr>";
  }
  return out + "</table></div>";
}

inline std::string links_html(std::span<const LinkUse> links) {
  std::string out =
      "<div class=\"card scroll\"><table><tr><th>from rank</th><th>to rank</th><th>messages</th><th>bytes</th>"
      "<th>a message takes, median</th></tr>";
  for (const LinkUse& link : links) {
    out += concat("<tr><td>", link.from, "</td><td>", link.to, "</td><td>", link.messages, "</td><td>",
                  format_bytes(link.bytes), "</td><td>", format_seconds(link.median), "</td></tr>");
  }
  return out + "</table></div>";
}

/// What was sent by channel, what a codec made of it, and what it held up.
inline std::string channels_html(std::span<const ReportLink> links) {
  std::string out =
      "<div class=\"card scroll\"><table><tr><th>channel</th><th>link</th><th>messages</th><th>as in memory</th>"
      "<th>on the wire</th><th>ratio</th><th>relative error</th><th>exposed s</th></tr>";
  for (const ReportLink& link : links) {
    const double ratio = link.wire > 0 ? static_cast<double>(link.raw) / static_cast<double>(link.wire) : 1;
    out += concat("<tr><td>", html_escape(link.channel), "</td><td>", html_escape(link.link), "</td><td>",
                  link.messages, "</td><td>", format_bytes(link.raw), "</td><td>", format_bytes(link.wire), "</td><td>",
                  fixed(ratio, 2), "</td><td>", link.error ? fixed(*link.error, 4) : std::string("-"), "</td><td>",
                  fixed(link.exposed, 3), "</td></tr>");
  }
  return out + "</table></div>";
}

}  // namespace detail

REEF_INLINE std::string report_html(const Report& report) {
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
  if (const std::string timeline = Timeline(report).svg(); !timeline.empty()) {
    out += "<h2>What each lane did</h2>" + timeline;
  }
  if (!report.overlaps.empty()) {
    out += "<h2>Computation and communication</h2>" + overlap_html(report.overlaps);
  }
  const bool all = !(report.from < report.to);
  const Seconds from = all ? std::numeric_limits<Seconds>::lowest() : report.from;
  const Seconds to = all ? (std::numeric_limits<Seconds>::max)() : report.to;
  const std::vector<LinkUse> links = links_of(report.recordings, from, to);
  if (!all && !links.empty()) {
    std::vector<Waits> waits;
    for (const Recording& recording : report.recordings) {
      waits.push_back(waits_of(recording, report.from, report.to));
    }
    out += "<h2>What stages waited for</h2><p class=\"muted\">In the time that the lanes show.</p>" +
           waits_html(waits);
  }
  if (!links.empty()) out += "<h2>Messages between ranks</h2>" + links_html(links);
  if (!report.links.empty()) {
    out +=
        "<h2>What links carried</h2><p class=\"muted\">In the whole run, evaluations included: both ends of a link, "
        "all "
        "members of a group.</p>" +
        channels_html(report.links);
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

}  // namespace trace
}  // namespace v0
}  // namespace reef
