#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>

namespace reef_bench {

/// The least cost so far: (time, cost), ascending in time.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// The curves of one network, to the end of their time.
struct Panel {
  std::string title;
  double limit = 1;
  std::vector<Curve> curves;
};

/// Panels side by side, as SVG: time on a logarithmic axis from 1 ms, cost on a linear one.
inline void draw(std::ostream& svg, const std::vector<Panel>& panels) {
  constexpr double width = 300;
  constexpr double height = 220;
  constexpr double margin = 52;
  constexpr double earliest = 1e-3;
  constexpr std::array<const char*, 4> colours{"#999999", "#d98c00", "#c0392b", "#1f6fb4"};
  const double step = width + 1.5 * margin;
  const double total = margin + step * static_cast<double>(panels.size());
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << total << "\" height=\""
      << height + 2.5 * margin << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  const auto text = [&](double x, double y, const char* anchor, const std::string& what) {
    svg << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\">" << what
        << "</text>\n";
  };
  double left = margin;
  for (const Panel& panel : panels) {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const Curve& curve : panel.curves) {
      for (const auto& [time, cost] : curve.points) {
        least = std::min(least, cost);
        most = std::max(most, cost);
      }
    }
    least = std::min(least, most);  // where nothing was found
    const double spare = std::max({0.05 * (most - least), 1e-3 * least, 1e-9});
    const double span = std::log(panel.limit / earliest);
    const auto x_of = [&](double time) {
      return left + width * std::clamp(std::log(time / earliest) / span, 0.0, 1.0);
    };
    const auto y_of = [&](double cost) {
      return margin + height * (1 - (cost - least + spare) / (most - least + 2 * spare));
    };
    text(left, margin - 12, "start", panel.title);
    svg << "<rect x=\"" << left << "\" y=\"" << margin << "\" width=\"" << width << "\" height=\""
        << height << "\" fill=\"none\" stroke=\"black\"/>\n";
    for (double time = earliest; time <= panel.limit * 1.001; time *= 10) {
      svg << "<line x1=\"" << x_of(time) << "\" x2=\"" << x_of(time) << "\" y1=\"" << margin
          << "\" y2=\"" << margin + height << "\" stroke=\"#dddddd\"/>\n";
      text(x_of(time), margin + height + 16, "middle",
           time < 0.9 ? reef::concat(std::lround(time * 1000), " ms")
                      : reef::concat(std::lround(time), " s"));
    }
    for (const double cost : {least, (least + most) / 2, most}) {
      text(left - 6, y_of(cost) + 4, "end",
           reef::concat(std::lround(cost * 10) / 10, ".", std::lround(cost * 10) % 10));
    }
    double legend = margin + 16;
    for (std::size_t i = 0; i < panel.curves.size(); ++i) {
      const Curve& curve = panel.curves[i];
      const char* const colour = colours.at(i % colours.size());
      if (curve.points.empty()) continue;
      svg << "<path fill=\"none\" stroke-width=\"2\" stroke=\"" << colour << "\" d=\"M";
      double before = 0;
      for (std::size_t p = 0; p < curve.points.size(); ++p) {
        const auto& [time, cost] = curve.points[p];
        if (p > 0) svg << " L" << x_of(time) << ' ' << before << " L";
        before = y_of(cost);
        svg << x_of(time) << ' ' << before;
      }
      svg << " L" << x_of(panel.limit) << ' ' << before << "\"/>\n";
      svg << "<g fill=\"" << colour << "\">";
      text(left + width - 8, legend, "end", curve.name);
      svg << "</g>\n";
      legend += 16;
    }
    text(left + width / 2, margin + height + 36, "middle", "time of the search");
    left += step;
  }
  text(margin, height + 2.3 * margin, "start",
       "Least cost so far, seconds of communication per iteration (Eq. 1), two threads each.");
  svg << "</svg>\n";
}

}  // namespace reef_bench
