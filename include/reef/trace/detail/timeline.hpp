#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trace/detail/boxes.hpp>
#include <reef/trace/detail/html.hpp>
#include <reef/trace/detail/residency.hpp>
#include <reef/trace/report.hpp>

namespace reef {
inline namespace v0 {
namespace trace::detail {

/// The lanes of all ranks over one stretch of time, as an inline SVG.
class Timeline {
public:
  explicit Timeline(const Report& report) : report_(report), from_(report.from), to_(report.to) {
    if (from_ < to_) return;
    from_ = to_ = first_begin(report.recordings);
    for (const Recording& recording : report.recordings) {
      for (const Span& span : recording.spans) to_ = (std::max)(to_, span.end);
    }
  }

  /// Empty where there is nothing to show.
  std::string svg() {
    if (!(from_ < to_)) return "";
    scale_ = (right - left) / (to_ - from_);
    kinds_ = kinds_of_compute(report_.recordings, from_, to_);
    for (const Recording& recording : report_.recordings) add_rank(recording);
    y_ -= 6;
    const std::string height = fixed(y_ + 20, 0);
    return concat("<div class=\"card\"><figure>", legend(),
                  "<div class=\"scroll\"><svg viewBox=\"0 0 1120 ", height,
                  "\" role=\"img\" aria-label=\"Timeline of all lanes\">", axis(), body_,
                  "</svg></div></figure></div>");
  }

private:
  static constexpr double width = 1120;
  static constexpr double left = 150;
  static constexpr double right = 1110;
  static constexpr double lane = 18;
  static constexpr std::size_t tints = 4;
  static constexpr std::size_t max_segments = 64;  ///< whose rows one can tell apart

  [[nodiscard]] double px(Seconds time) const { return left + (time - from_) * scale_; }

  [[nodiscard]] std::size_t tint_of(std::string_view name) const {
    const auto found = std::find(kinds_.begin(), kinds_.end(), kind_of(name));
    return (std::min)(tints - 1, static_cast<std::size_t>(found - kinds_.begin()));
  }

  void add_rank(const Recording& recording) {
    body_ += concat("<text class=\"rank\" x=\"0\" y=\"", fixed(y_ + 12, 1), "\">rank ",
                    recording.rank, "</text>");
    for (std::size_t track = 0; track < recording.tracks.size(); ++track) {
      const std::vector<Box> boxes = boxes_of(recording, track, from_, to_, 0.6 / scale_);
      double shown = 0;
      for (const Box& box : boxes) {
        if (box.activity != Activity::other) shown += (box.end - box.begin) * scale_;
      }
      if (shown < 4) continue;  // nothing that one would see
      open_row(recording.tracks[track], lane - 3);
      for (const Box& box : boxes) add_box(box);
      y_ += lane;
    }
    const auto gaps = exposed(recording, from_, to_);
    if (!gaps.empty()) {
      y_ += 2;
      open_row("exposed", 7);
      for (const auto& gap : gaps) {
        body_ += concat("<rect class=\"exposed\" x=\"", fixed(px(gap.begin), 2), "\" y=\"",
                        fixed(y_, 1), "\" width=\"", width_of(gap.begin, gap.end),
                        "\" height=\"7\"><title>communication that no computation hides\n",
                        format_seconds(gap.end - gap.begin), "\nat ",
                        format_seconds(gap.begin - from_), "</title></rect>");
      }
      y_ += 12;
    }
    add_residency(recording);
    y_ += 12;
  }

  /// Of a model that is swapped: when each segment is on the device, and when it is used there.
  void add_residency(const Recording& recording) {
    const auto segments = stays_of(recording);
    std::size_t shown = 0;
    const auto add = [&](std::string_view css, Seconds begin, Seconds end,
                         const std::string& what) {
      begin = (std::max)(begin, from_);
      end = (std::min)(end, to_);
      if (!(begin < end)) return;
      body_ += concat("<rect class=\"", css, "\" x=\"", fixed(px(begin), 2), "\" y=\"",
                      fixed(y_, 1), "\" width=\"", width_of(begin, end), "\" height=\"7\"><title>",
                      what, "\n", format_seconds(end - begin), "\nat ",
                      format_seconds(begin - from_), "</title></rect>");
    };
    for (const auto& [segment, stays] : segments) {
      if (shown++ == max_segments) {
        y_ += 4;
        body_ += concat("<text x=\"0\" y=\"", fixed(y_ + 7, 1), "\">and ",
                        segments.size() - max_segments, " segments more</text>");
        y_ += 12;
        break;
      }
      const std::string name = concat("segment ", segment);
      open_row(name, 7);
      for (const Stay& stay : stays) {
        add("other", stay.begin, stay.end, name + " is on the device");
        add("copy", stay.begin, stay.ready, name + " is loaded");
        std::vector<Intervals::Interval> seen;
        for (const auto& [begin, end] : stay.used)
          seen.push_back({begin - 0.3 / scale_, end + 0.3 / scale_});
        const Intervals used(std::move(seen));
        for (const auto& [begin, end] : used.parts()) add("compute", begin, end, name + " is used");
      }
      y_ += 9;
    }
  }

  void open_row(std::string_view name, double height) {
    body_ += concat("<text class=\"name end\" x=\"142\" y=\"", fixed(y_ + height / 2 + 4, 1), "\">",
                    html_escape(name.substr(0, 16)), "</text><rect class=\"row\" x=\"150\" y=\"",
                    fixed(y_, 1), "\" width=\"960\" height=\"", fixed(height, 0), "\"/>");
  }

  [[nodiscard]] std::string width_of(Seconds begin, Seconds end) const {
    return fixed((std::max)(0.4, (end - begin) * scale_), 2);
  }

  void add_box(const Box& box) {
    const std::string activity(trace::name_of(box.activity));
    const bool computes = box.activity == Activity::compute;
    const std::string css = computes ? concat(activity, " t", tint_of(box.name)) : activity;
    body_ += concat("<rect class=\"span ", css, "\" x=\"", fixed(px(box.begin), 2), "\" y=\"",
                    fixed(y_, 1), "\" width=\"", width_of(box.begin, box.end),
                    "\" height=\"15\"><title>", html_escape(box.name));
    if (box.count > 1) body_ += concat(" and ", box.count - 1, " more");
    body_ += concat("\n", activity, ", ", format_seconds(box.end - box.begin));
    if (box.bytes != 0) body_ += concat(", ", format_bytes(box.bytes));
    body_ += concat("\nat ", format_seconds(box.begin - from_), "</title></rect>");
    const std::string_view kind = kind_of(box.name);
    if (box.count > 1 ||
        (box.end - box.begin) * scale_ < 5.8 * static_cast<double>(kind.size()) + 6)
      return;
    body_ += concat("<text class=\"in ", computes && tint_of(box.name) > 1 ? "dark" : "light",
                    " mid\" x=\"", fixed(px((box.begin + box.end) / 2), 1), "\" y=\"",
                    fixed(y_ + 11, 1), "\">", html_escape(kind), "</text>");
  }

  /// What the colours say: of the activities that are there, and of the kinds of computation.
  [[nodiscard]] std::string legend() const {
    std::array<bool, activity_count> seen{};
    for (const Recording& recording : report_.recordings) {
      for (const Span& span : recording.spans) {
        if (span.begin < to_ && span.end > from_)
          seen[static_cast<std::size_t>(span.activity)] = true;
      }
    }
    std::string out = "<div class=\"legend\">";
    const auto entry = [&](std::string_view css, std::string_view text) {
      out += concat("<span><svg viewBox=\"0 0 11 11\"><rect class=\"", css,
                    "\" width=\"11\" height=\"11\" rx=\"3\"/></svg>", html_escape(text), "</span>");
    };
    for (std::size_t i = 0; i < (std::min)(kinds_.size(), tints); ++i) {
      entry(concat("compute t", i),
            i + 1 == tints && kinds_.size() > tints ? "other compute" : kinds_[i]);
    }
    for (const Activity activity : {Activity::communication, Activity::copy, Activity::wait}) {
      if (!seen[static_cast<std::size_t>(activity)]) continue;
      entry(trace::name_of(activity), trace::name_of(activity));
    }
    if (seen[static_cast<std::size_t>(Activity::communication)]) {
      entry("exposed", "exposed communication: nothing computes meanwhile");
    }
    const bool swaps =
        std::any_of(report_.recordings.begin(), report_.recordings.end(),
                    [](const Recording& recording) { return !stays_of(recording).empty(); });
    if (swaps) entry("other", "a segment of the model is on the device");
    return out + "</div>";
  }

  /// Time below, and where steps end above.
  [[nodiscard]] std::string axis() const {
    std::string out;
    for (const double at : ticks(0, to_ - from_, 10)) {
      const std::string x = fixed(px(from_ + at), 1);
      out += concat("<line class=\"grid\" x1=\"", x, "\" x2=\"", x, "\" y1=\"16\" y2=\"",
                    fixed(y_, 1), "\"/>");
      out += axis_label(px(from_ + at), y_ + 14, width, at == 0 ? "0" : format_seconds(at));
    }
    Seconds begin = from_;
    for (const ReportStep& step : report_.steps) {
      const Seconds end = report_.origin + step.seconds;
      if (!(end > from_) || !(end < to_ + 0.01 * (to_ - from_))) continue;
      const std::string x = fixed((std::min)(right, px(end)), 1);
      out += concat("<line class=\"step\" x1=\"", x, "\" x2=\"", x, "\" y1=\"4\" y2=\"",
                    fixed(y_, 1), "\"/>");
      if ((end - begin) * scale_ > 50) {
        out += axis_label(px((begin + end) / 2), 12, width, concat("step ", step.step));
      }
      begin = end;
    }
    return out;
  }

  const Report& report_;
  Seconds from_;
  Seconds to_;
  double scale_ = 1;
  double y_ = 20;
  std::string body_;
  std::vector<std::string> kinds_;
};

}  // namespace trace::detail
}  // namespace v0
}  // namespace reef
