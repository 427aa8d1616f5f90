#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json_string.hpp>

namespace reef {
inline namespace v0 {
namespace trace::detail {

/// Text for an HTML page: what is no UTF-8, and control characters, become U+FFFD.
inline std::string html_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = io::detail::utf8_length(text);
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (length == 0 || control || c == 0x7F) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

/// A number with so many digits after the point.
inline std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

/// A number for people: "0.125", "512", "34.1k", "1.23M".
inline std::string compact(double value) {
  const double magnitude = (std::abs)(value);
  std::string text;
  std::string_view unit;
  if (magnitude >= 1e9) {
    text = fixed(value / 1e9, 2);
    unit = "G";
  } else if (magnitude >= 1e6) {
    text = fixed(value / 1e6, 2);
    unit = "M";
  } else if (magnitude >= 1e4) {
    text = fixed(value / 1e3, 1);
    unit = "k";
  } else {
    text = fixed(value, magnitude >= 100 ? 0 : 3);
  }
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  if (text == "-0") text = "0";
  return text.append(unit);
}

/// At most `count` + 1 round values that span [low, high].
inline std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> values;
  const double first = std::ceil(low / step - 1e-9);
  for (double i = first; i * step <= high + 1e-9 * step; ++i) values.push_back(i * step);
  return values;
}

/// What an axis says at x: in the middle there, or as far from the picture's edges as it is wide.
inline std::string axis_label(double x, double y, double width, std::string_view text) {
  // Of figures and letters of 11 pixels, and a little more.
  const double half = 3.3 * static_cast<double>(text.size()) + 1;
  return concat(
      "<text class=\"tick mid\" x=\"",
      fixed(std::clamp(x, (std::min)(half, width / 2), (std::max)(width - half, width / 2)), 1),
      "\" y=\"", fixed(y, 1), "\">", html_escape(text), "</text>");
}

/// One line over x, whole numbers, as an inline SVG, with a faint line of the raw values where it is smoothed.
struct Chart {
  std::string title;
  std::string unit;
  std::vector<double> x;
  std::vector<double> y;
  std::string x_name;
  double smoothing = 0;  // share of the last value in the running mean; 0 draws y as it is
  bool from_zero = false;
};

inline std::string chart_svg(const Chart& chart) {
  constexpr double width = 560;
  constexpr double height = 240;
  constexpr double left = 48;
  constexpr double right = 14;
  constexpr double top = 14;
  constexpr double bottom = 34;
  std::vector<double> x;
  std::vector<double> y;
  for (std::size_t i = 0; i < (std::min)(chart.x.size(), chart.y.size()); ++i) {
    if (is_finite(chart.x[i]) && is_finite(chart.y[i])) {
      x.push_back(chart.x[i]);
      y.push_back(chart.y[i]);
    }
  }
  std::string out = concat("<figure class=\"card\"><figcaption><b>", html_escape(chart.title),
                           "</b> <span>", html_escape(chart.unit), "</span></figcaption>");
  if (x.empty()) return out + "<p class=\"muted\">No steps were recorded.</p></figure>";

  std::vector<double> line = y;
  if (chart.smoothing > 0) {
    double mean = 0;
    double weight = 0;
    for (double& value : line) {
      mean = chart.smoothing * mean + (1 - chart.smoothing) * value;
      weight = chart.smoothing * weight + (1 - chart.smoothing);
      value = mean / weight;
    }
  }
  const double x0 = x.front();
  const double x1 = (std::max)(x.back(), x0 + 1e-9);
  double y0 = chart.from_zero ? 0 : *std::min_element(y.begin(), y.end());
  double y1 = *std::max_element(y.begin(), y.end());
  if (!(y1 > y0)) y1 = y0 + (std::max)(1e-9, (std::abs)(y0)*0.1);
  y0 -= chart.from_zero ? 0 : 0.05 * (y1 - y0);
  y1 += 0.05 * (y1 - y0);
  const auto px = [&](double v) { return left + (width - left - right) * (v - x0) / (x1 - x0); };
  const auto py = [&](double v) {
    return height - bottom - (height - top - bottom) * (v - y0) / (y1 - y0);
  };
  // At most two points a pixel: the least and the greatest of each bin, in their order.
  const auto path = [&](const std::vector<double>& values, std::string_view css) {
    constexpr std::size_t bins = 500;
    std::string d;
    std::vector<std::size_t> chosen;
    const std::size_t size = (values.size() + bins - 1) / bins;
    for (std::size_t begin = 0; begin < values.size(); begin += size) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last =
          values.begin() + static_cast<std::ptrdiff_t>((std::min)(begin + size, values.size()));
      const auto [least, greatest] = std::minmax_element(first, last);
      const auto a = static_cast<std::size_t>(least - values.begin());
      const auto b = static_cast<std::size_t>(greatest - values.begin());
      chosen.push_back((std::min)(a, b));
      if (a != b) chosen.push_back((std::max)(a, b));
    }
    for (const std::size_t i : chosen) {
      d += concat((d.empty() ? "M" : "L"), fixed(px(x[i]), 1), " ", fixed(py(values[i]), 1));
    }
    return concat("<path class=\"", css, "\" d=\"", d, "\"/>");
  };
  out += concat("<svg viewBox=\"0 0 560 240\" role=\"img\" aria-label=\"", html_escape(chart.title),
                "\">");
  for (const double value : ticks(y0, y1, 5)) {
    const std::string at = fixed(py(value), 1);
    out += concat("<line class=\"grid\" x1=\"48\" x2=\"546\" y1=\"", at, "\" y2=\"", at, "\"/>");
    out += concat("<text class=\"tick end\" x=\"42\" y=\"", fixed(py(value) + 4, 1), "\">",
                  compact(value), "</text>");
  }
  for (const double value : ticks(x0, x1, 6)) {
    if (value != std::round(value)) continue;  // steps are whole
    out += axis_label(px(value), 224, width, compact(value));
  }
  out += axis_label(297, 238, width, chart.x_name);
  if (chart.smoothing > 0) out += path(y, "raw");
  out += path(line, "line");
  out += concat("<circle class=\"dot\" cx=\"", fixed(px(x.back()), 1), "\" cy=\"",
                fixed(py(line.back()), 1), "\" r=\"4\"/>");
  // Invisible columns that say the value under the pointer.
  constexpr std::size_t columns = 80;
  const std::size_t stride = (x.size() + columns - 1) / columns;
  const double column = (width - left - right) * static_cast<double>(stride) /
                        static_cast<double>(std::max<std::size_t>(1, x.size()));
  for (std::size_t i = 0; i < x.size(); i += stride) {
    out +=
        concat("<rect class=\"hit\" x=\"", fixed(px(x[i]) - column / 2, 1), "\" y=\"14\" width=\"",
               fixed(column, 1), "\" height=\"192\"><title>", html_escape(chart.x_name), " ",
               compact(x[i]), ": ", compact(y[i]), "</title></rect>");
  }
  return out + "</svg></figure>";
}

inline constexpr std::string_view report_style = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#15191f;--soft:#5b6470;--hair:#e3e6ea;
--compute:#2a78d6;--communication:#eb6834;--copy:#1baf7a;--exposed:#c4265e;--wait:#c3c8cf;--other:#dfe2e6}
@media(prefers-color-scheme:dark){:root{--page:#101215;--card:#191c20;--ink:#eef0f3;--soft:#9aa3ae;--hair:#2b3036;
--compute:#3987e5;--communication:#d95926;--copy:#199e70;--exposed:#ef5d8f;--wait:#4b525b;--other:#363c43}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1180px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:17px;margin:36px 0 10px}
.muted,figcaption span,.tile span{color:var(--soft)}
.card,.tile{background:var(--card);border:1px solid var(--hair);border-radius:10px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0 12px}
.tile{padding:12px 16px}.tile b{display:block;font-size:24px;line-height:1.25;font-weight:600}
.tile span{font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:12px}
figure{margin:0;padding:14px 16px 8px}figcaption{margin-bottom:6px}
svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif}
.scroll{overflow-x:auto}.scroll figure svg,figure .scroll svg{min-width:720px}
.grid{stroke:var(--hair);stroke-width:1}.tick{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
.end{text-anchor:end}.mid{text-anchor:middle}.name{fill:var(--ink);font-size:11px}.rank{fill:var(--ink);font-weight:600}
.line{fill:none;stroke:var(--compute);stroke-width:2;stroke-linejoin:round}
.raw{fill:none;stroke:var(--compute);stroke-width:1;opacity:.28}
.dot{fill:var(--compute);stroke:var(--card);stroke-width:2}.hit{fill:transparent}.hit:hover{fill:var(--ink);opacity:.07}
.row{fill:var(--page)}.compute{fill:var(--compute)}.communication{fill:var(--communication)}.copy{fill:var(--copy)}
.exposed{fill:var(--exposed)}.t1{fill-opacity:.72}.t2{fill-opacity:.46}.t3{fill-opacity:.26}
.in{font-size:10px;pointer-events:none}.light{fill:#fff}.dark{fill:var(--ink)}
.step{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3}
.wait{fill:var(--wait)}.other{fill:var(--other)}.span{stroke:var(--card);stroke-width:.6}.span:hover{opacity:.7}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:2px 0 10px;font-size:13px;color:var(--soft)}
.legend svg{display:inline-block;width:11px;height:11px;margin-right:6px;vertical-align:-1px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:7px 12px;text-align:right;border-top:1px solid var(--hair);white-space:nowrap}
th{font-weight:500;color:var(--soft);font-size:13px;border-top:0}th:first-child,td:first-child{text-align:left}
tr.mean td{font-weight:600}svg.stack{width:170px;height:12px}
.facts td{text-align:left;white-space:normal;overflow-wrap:anywhere}.facts td:first-child{color:var(--soft);width:220px}
pre{margin:0;padding:16px;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace}
)css";

}  // namespace trace::detail
}  // namespace v0
}  // namespace reef
