#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>

#include "plot_svg.hpp"
#include "plot_text.hpp"

namespace reef_examples {

/// What runs when, in rows. Where nothing runs the ground shows.
struct GanttPlot {
  struct Colour {
    std::string name;  ///< for the legend; empty: that of the next one
    std::string fill;
    std::string ink;
  };
  struct Bar {
    double begin = 0;
    double end = 0;
    std::size_t colour = 0;
    std::string label;  ///< inside, if there is room
    std::string text;   ///< all of it
  };
  struct Row {
    std::string name;
    std::vector<Bar> bars;
  };

  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  ///< "a step", "330 us"
  std::string unit;                                        ///< of times
  std::string idle = "idle";                               ///< what the ground means
  std::vector<Colour> colours;
  std::vector<Row> rows;
};

namespace detail {

class GanttDrawing {
public:
  explicit GanttDrawing(const GanttPlot& plot) : plot_(plot) {
    std::vector<double> durations;
    std::size_t letters = 1;
    for (const auto& row : plot.rows) {
      name_ = std::max(name_, 7 * static_cast<double>(row.name.size()) + 14);
      for (const auto& bar : row.bars) {
        end_ = std::max(end_, bar.end);
        letters = std::max(letters, bar.label.size());
        if (bar.end > bar.begin) durations.push_back(bar.end - bar.begin);
      }
    }
    // So wide that labels fit into most bars, as far as a few screens go.
    if (!durations.empty()) {
      const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
      std::nth_element(durations.begin(), middle, durations.end());
      width_ = std::clamp(end_ / *middle * label_width(letters), 640.0, 4000.0);
    }
    scale_ = end_ > 0 ? width_ / end_ : 0;
  }

  [[nodiscard]] std::string svg() const {
    const double top = head();
    const double rows = row_height * static_cast<double>(plot_.rows.size());
    const double width = margin + name_ + width_ + margin;
    const double height = top + rows + 30 + margin;
    std::string out = svg_head(svg_px(width), svg_px(height), plot_.title) + svg_facts(plot_.facts) + legend(top - 26);
    for (std::size_t r = 0; r < plot_.rows.size(); ++r) {
      out += row(plot_.rows[r], top + row_height * static_cast<double>(r));
    }
    return out + axis(top + rows) + "</svg>\n";
  }

private:
  static constexpr double margin = svg_margin;
  static constexpr double row_height = 26;
  static constexpr double bar_height = 22;

  static double label_width(std::size_t letters) {
    return 6.2 * static_cast<double>(letters) + 1.5;
  }

  [[nodiscard]] double head() const {
    return 46 + 18 * static_cast<double>(plot_.facts.size()) + 36;
  }

  /// Colours without a name stand with the next one that has one.
  [[nodiscard]] std::string legend(double y) const {
    std::string out;
    double x = margin;
    const auto entry = [&](std::string_view fill, std::string_view more, std::string_view name) {
      out +=
          reef::concat("<rect class=\"legend\" x=\"", svg_px(x), "\" y=\"", svg_px(y - 10),
                       "\" width=\"12\" height=\"12\" rx=\"3\" fill=\"", fill, "\" ", more, "/>\n");
      x += 15;
      if (name.empty()) return;
      out += svg_text(x + 3, y, name);
      x += 6.5 * static_cast<double>(name.size()) + 22;
    };
    for (const auto& colour : plot_.colours) entry(colour.fill, "", colour.name);
    entry(ground, "stroke=\"#c4cad2\"", plot_.idle);
    return out;
  }

  [[nodiscard]] std::string row(const GanttPlot::Row& row, double y) const {
    const double left = margin + name_;
    std::string out = svg_text(margin, y + 15, row.name);
    out += reef::concat("<rect class=\"idle\" x=\"", svg_px(left), "\" y=\"", svg_px(y), "\" width=\"",
                        svg_px(width_), "\" height=\"", svg_px(bar_height), "\" fill=\"", ground, "\"/>\n");
    for (const auto& bar : row.bars) {
      const double x = left + scale_ * bar.begin;
      const double width = scale_ * (bar.end - bar.begin);
      const auto& colour = plot_.colours[bar.colour];
      out += reef::concat("<g class=\"bar\"><rect x=\"", svg_fixed(x, 2), "\" y=\"", svg_px(y), "\" width=\"",
                          svg_fixed(std::max(width - 0.5, 0.3), 2), "\" height=\"", svg_px(bar_height),
                          "\" fill=\"", colour.fill, "\"/>");
      if (width >= label_width(bar.label.size())) {
        out += reef::concat("<text x=\"", svg_fixed(x + width / 2, 2), "\" y=\"", svg_px(y + 15),
                            "\" font-size=\"10\" text-anchor=\"middle\" fill=\"", colour.ink, "\">",
                            svg_escape(bar.label), "</text>");
      }
      out += reef::concat("<title>", svg_escape(bar.text), "</title></g>\n");
    }
    return out;
  }

  [[nodiscard]] std::string axis(double y) const {
    std::string out;
    if (!(end_ > 0)) return out;
    // Steps of 1, 2 or 5 times a power of ten, about one in 90.
    const double rough = end_ * 90 / width_;
    double step = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (step < rough) step *= factor;
    }
    for (double at = 0; at <= end_ * (1 + 1e-9); at += step) {
      const double x = margin + name_ + scale_ * at;
      out += reef::concat("<line x1=\"", svg_px(x), "\" x2=\"", svg_px(x), "\" y1=\"", svg_px(y), "\" y2=\"",
                          svg_px(y + 5), "\" stroke=\"#5b6470\"/>",
                          svg_text(x, y + 18, plot_number(at),
                               "font-size=\"10\" fill=\"#5b6470\" text-anchor=\"middle\""));
    }
    out += svg_text(margin, y + 18, plot_.unit, "font-size=\"10\" fill=\"#5b6470\"");
    return out;
  }

  static constexpr std::string_view ground = "#eceff3";

  const GanttPlot& plot_;
  double end_ = 0;
  double name_ = 0;
  double width_ = 640;
  double scale_ = 0;
};

}  // namespace detail

/// An SVG.
inline std::string gantt_svg(const GanttPlot& plot) { return detail::GanttDrawing(plot).svg(); }

}  // namespace reef_examples
