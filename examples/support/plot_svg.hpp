#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/trace/detail/html.hpp>

#include "earlier_files.hpp"

namespace reef_examples::detail {

/// The distance from a drawing's edges.
inline constexpr double svg_margin = 24;

inline std::string svg_escape(std::string_view text) { return reef::trace::detail::html_escape(text); }

/// A number with so many digits behind the point.
inline std::string svg_fixed(double value, int digits) { return reef::trace::detail::fixed(value, digits); }
inline std::string svg_px(double value) { return svg_fixed(value, 1); }

/// A line of text; `more`: attributes.
inline std::string svg_text(double x, double y, std::string_view what, std::string_view more = "") {
  return reef::concat("<text x=\"", svg_px(x), "\" y=\"", svg_px(y), "\" ", more, ">", svg_escape(what), "</text>\n");
}

/// The beginning of a whole SVG file, and its title.
inline std::string svg_head(const std::string& width, const std::string& height, const std::string& title) {
  return reef::concat(drawing_begins, " xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
                      "\" viewBox=\"0 0 ", width, " ", height,
                      "\" font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#15191f\">\n<title>",
                      svg_escape(title), "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                      svg_text(svg_margin, 30, title, "font-size=\"18\" font-weight=\"600\""));
}

/// "total: 34.80 s", a fact a line below the title.
inline std::string svg_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out;
  double y = 50;
  for (const auto& [name, value] : facts) {
    out += svg_text(svg_margin, y, reef::concat(name, ": ", value), "fill=\"#5b6470\"");
    y += 18;
  }
  return out;
}

}  // namespace reef_examples::detail
