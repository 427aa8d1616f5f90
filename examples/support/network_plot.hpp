#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/profile/network.hpp>

#include "network_places.hpp"
#include "plot_layout.hpp"
#include "plot_svg.hpp"
#include "plot_text.hpp"

namespace reef_examples {

/// What a drawing of a network shows. What is empty is left out.
struct NetworkPlot {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  ///< "total", "34.80 s"
  reef::profile::Network network;
  std::vector<int> labels;              ///< the cluster of each device
  std::vector<std::vector<int>> paths;  ///< devices in the order of a pipeline or a chain
  std::vector<std::vector<int>>
      groups;  ///< devices that work together, such as the replicas of a stage
  std::string path_name = "pipeline";
  std::string group_name = "stage";
  PlotRates rates;
};

namespace detail {

/// One drawing on its way: from where devices are to the text.
class NetworkDrawing {
public:
  explicit NetworkDrawing(const NetworkPlot& plot)
      : plot_(checked(plot)),
        n_(static_cast<std::size_t>(plot.network.devices)),
        places_(plot.network, plot.labels, plot.paths) {}

  std::string svg() {
    const double drawing_width = places_.right - places_.left + 2 * margin;
    const double drawing_height = places_.bottom - places_.top + 2 * margin;
    const std::string panel = legend();
    const double head = 46 + 18 * static_cast<double>(plot_.facts.size());
    const double width = drawing_width + panel_width;
    const double height = head + std::max(drawing_height, panel_height_ + margin);
    const auto links = fast_links();
    return reef::concat(svg_head(svg_fixed(width, 0), svg_fixed(height, 0), plot_.title), svg_facts(plot_.facts),
                        "<g transform=\"translate(", svg_px(margin - places_.left), " ", svg_px(head + margin - places_.top),
                        ")\">\n", links.first, clusters(), links.second, path_lines(), devices(),
                        "</g>\n<g transform=\"translate(", svg_px(drawing_width), " ", svg_px(head), ")\">\n", panel,
                        "</g>\n</svg>\n");
  }

private:
  static constexpr double margin = svg_margin;
  static constexpr double panel_width = 400;
  static constexpr std::size_t max_entries = 16;  ///< of each kind in the legend
  static constexpr std::size_t max_linked = 300;
  static constexpr std::string_view halo =
      "paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"3\" stroke-linejoin=\"round\"";

  static const NetworkPlot& checked(const NetworkPlot& plot) {
    plot.network.validate();
    const auto require = [](bool holds, std::string_view what) {
      if (holds) return;
      throw reef::OptionError("network_svg: ", what, " are not of the network's devices.");
    };
    const auto devices = static_cast<std::size_t>(plot.network.devices);
    require(plot.labels.empty() || plot.labels.size() == devices, "labels");
    for (const auto* lists : {&plot.paths, &plot.groups}) {
      for (const std::vector<int>& list : *lists) {
        for (const int device : list)
          require(device >= 0 && device < plot.network.devices, "paths and groups");
      }
    }
    return plot;
  }

  [[nodiscard]] std::string cluster_name(std::size_t box) const {
    return reef::concat("cluster ",
                        plot_.labels[static_cast<std::size_t>(places_.members[box].front())]);
  }

  [[nodiscard]] std::string clusters() const {
    std::string out;
    if (plot_.labels.empty()) return out;
    for (std::size_t b = 0; b < places_.boxes.size(); ++b) {
      const PlotBox& box = places_.boxes[b];
      const std::string colour = plot_colour(b);
      const std::string place = reef::concat(
          "x=\"", svg_px(box.x - box.width / 2), "\" y=\"", svg_px(box.y - box.height / 2), "\" width=\"",
          svg_px(box.width), "\" height=\"", svg_px(box.height), "\" rx=\"10\"");
      out +=
          reef::concat("<rect ", place, " fill=\"#fff\"/><rect class=\"cluster\" ", place,
                       " fill=\"", colour, "\" fill-opacity=\"0.08\" stroke=\"", colour, "\"/>\n");
      if (box.width >= 60) {
        out += svg_text(box.x - box.width / 2 + 10, box.y - box.height / 2 + 16, cluster_name(b),
                    reef::concat("font-size=\"11\" fill=\"", colour, "\""));
      }
    }
    return out;
  }

  /// Where there are no paths: of each box the links to the two nearest, and their figures where there is room.
  [[nodiscard]] std::pair<std::string, std::string> fast_links() const {
    std::pair<std::string, std::string> out;
    const std::size_t m = places_.boxes.size();
    if (!plot_.paths.empty() || m > max_linked) return out;
    std::vector<char> drawn(m * m, 0);
    for (std::size_t a = 0; a < m; ++a) {
      std::vector<std::size_t> order;
      for (std::size_t b = 0; b < m; ++b) {
        if (b != a) order.push_back(b);
      }
      std::stable_sort(order.begin(), order.end(), [&](std::size_t b, std::size_t c) {
        return places_.distances[a * m + b] < places_.distances[a * m + c];
      });
      for (std::size_t i = 0; i < std::min<std::size_t>(2, order.size()); ++i) {
        const std::size_t b = order[i];
        if (drawn[a * m + b] == 0) add_link(a, b, out);
        drawn[a * m + b] = drawn[b * m + a] = 1;
      }
    }
    return out;
  }

  void add_link(std::size_t a, std::size_t b, std::pair<std::string, std::string>& out) const {
    PlotLinks links(plot_.rates);
    for (const int from : places_.members[a]) {
      for (const int to : places_.members[b]) {
        links.add(plot_.network, from, to);
        links.add(plot_.network, to, from);
      }
    }
    const PlotBox& p = places_.boxes[a];
    const PlotBox& q = places_.boxes[b];
    out.first += reef::concat("<line class=\"link\" x1=\"", svg_px(p.x), "\" y1=\"", svg_px(p.y),
                              "\" x2=\"", svg_px(q.x), "\" y2=\"", svg_px(q.y),
                              "\" stroke=\"#9aa3ae\" stroke-opacity=\"0.7\"><title>",
                              svg_escape(links.text()), "</title></line>\n");
    if (plot_.labels.empty()) return;
    // In the middle of what of the line is in neither box, unless another box is there.
    const double x = q.x - p.x;
    const double y = q.y - p.y;
    const auto inside = [&](const PlotBox& box) {
      return 0.5 * std::min(box.width / std::max(std::abs(x), 1e-9),
                            box.height / std::max(std::abs(y), 1e-9));
    };
    const double middle = (1 + inside(p) - inside(q)) / 2;
    const std::string figures = links.text();
    const PlotBox label{p.x + middle * x, p.y + middle * y,
                        5.4 * static_cast<double>(figures.size()), 14};
    for (const PlotBox& box : places_.boxes) {
      if (std::abs(box.x - label.x) < (box.width + label.width) / 2 &&
          std::abs(box.y - label.y) < (box.height + label.height) / 2) {
        return;
      }
    }
    out.second +=
        svg_text(label.x, label.y + 4, figures,
             reef::concat("font-size=\"10\" fill=\"#5b6470\" text-anchor=\"middle\" ", halo));
  }

  /// Each beside the others where several take the same way.
  [[nodiscard]] std::string path_lines() const {
    std::string out;
    for (std::size_t path = 0; path < plot_.paths.size(); ++path) {
      const double aside = (static_cast<double>(path % 5) - 2) * 1.8;
      std::string points;
      for (const int device : plot_.paths[path]) {
        const auto& [x, y] = places_.at[static_cast<std::size_t>(device)];
        points += reef::concat(points.empty() ? "" : " ", svg_px(x + aside), ",", svg_px(y + aside));
      }
      out += reef::concat("<polyline class=\"path\" points=\"", points,
                          "\" fill=\"none\" stroke=\"", path_colour(path),
                          "\" stroke-width=\"2.4\" stroke-opacity=\"0.75\" "
                          "stroke-linejoin=\"round\"><title>",
                          svg_escape(path_text(path)), "</title></polyline>\n");
    }
    return out;
  }

  /// Clusters have the first colours.
  [[nodiscard]] std::string path_colour(std::size_t path) const {
    return plot_colour(path + (plot_.labels.empty() ? 0 : places_.members.size()));
  }

  [[nodiscard]] std::string devices() const {
    std::vector<std::string> marks(n_);
    std::vector<std::string> fill(n_, plot_.labels.empty() ? "#5b6470" : "#fff");
    for (std::size_t b = 0; b < places_.members.size() && !plot_.labels.empty(); ++b) {
      for (const int device : places_.members[b])
        fill[static_cast<std::size_t>(device)] = plot_colour(b);
    }
    for (std::size_t i = 0; i < n_; ++i)
      marks[i] = plot_.groups.empty() ? std::to_string(i) : "\u2013";
    std::vector<std::string> more(n_);
    for (std::size_t group = 0; group < plot_.groups.size(); ++group) {
      for (const int device : plot_.groups[group]) {
        const auto i = static_cast<std::size_t>(device);
        marks[i] = std::to_string(group);
        more[i] = reef::concat("\n", plot_.group_name, " ", group);
      }
    }
    std::string out;
    for (std::size_t i = 0; i < n_; ++i) {
      const auto& [x, y] = places_.at[i];
      const std::string name = plot_.network.name(static_cast<int>(i));
      out += reef::concat("<g class=\"device\"><circle cx=\"", svg_px(x), "\" cy=\"", svg_px(y), "\" r=\"",
                          svg_px(places_.radius), "\" fill=\"", fill[i],
                          "\" stroke=\"#fff\" stroke-width=\"1.5\"/>");
      const auto letters = plot_.groups.empty() || !more[i].empty() ? marks[i].size() : 1;
      const double size = std::min(10.0, 2.6 * places_.radius / static_cast<double>(letters));
      out += reef::concat("<text x=\"", svg_px(x), "\" y=\"", svg_px(y + 0.36 * size), "\" font-size=\"",
                          svg_px(size), "\" fill=\"#fff\" text-anchor=\"middle\">", svg_escape(marks[i]),
                          "</text>");
      if (places_.shows_names) {
        out += reef::concat("<text x=\"", svg_px(x), "\" y=\"", svg_px(y + places_.radius + 11),
                            "\" font-size=\"9.5\" text-anchor=\"middle\" ", halo, ">",
                            svg_escape(plot_shortened(name, 15)), "</text>");
      }
      out +=
          reef::concat("<title>", svg_escape(name), ", number ", i, svg_escape(more[i]), "</title></g>\n");
    }
    return out;
  }

  /// "pipeline 0: a, b, c".
  [[nodiscard]] std::string path_text(std::size_t path) const {
    std::string out = reef::concat(plot_.path_name, " ", path, ":");
    for (const int device : plot_.paths[path])
      out += reef::concat(device == plot_.paths[path].front() ? " " : ", ",
                          plot_.network.name(device));
    return out;
  }

  /// What colours say, with the figures of what they are of.
  std::string legend() {
    std::string out;
    double y = 16;
    const auto line = [&](std::string_view what, std::string_view more = "") {
      out += svg_text(0, y, what, more);
      y += 17;
    };
    const auto entry = [&](const std::string& colour, std::string_view what,
                           std::string_view figures) {
      out += reef::concat("<rect x=\"0\" y=\"", svg_px(y - 10),
                          "\" width=\"11\" height=\"11\" rx=\"3\" fill=\"", colour, "\"/>\n");
      out += svg_text(18, y, plot_shortened(what, 52));
      y += 15;
      out += svg_text(18, y, plot_shortened(figures, 66), "font-size=\"11\" fill=\"#5b6470\"");
      y += 19;
    };
    const auto rest = [&](std::size_t all, std::string_view what) {
      if (all > max_entries) line(reef::concat("and ", all - max_entries, " ", what, " more"));
      y += 8;
    };
    const reef::profile::Network& network = plot_.network;
    PlotLinks all(plot_.rates);
    for (int a = 0; a < network.devices; ++a) {
      for (int b = 0; b < network.devices; ++b) {
        if (a != b) all.add(network, a, b);
      }
    }
    line(reef::concat(n_, n_ == 1 ? " device" : " devices"), "font-weight=\"600\"");
    line(reef::concat("links, the middle of all: ", all.text()),
         "font-size=\"11\" fill=\"#5b6470\"");
    line("What is near has fast links between, as far as the plane allows.",
         "font-size=\"11\" fill=\"#5b6470\"");
    if (plot_.paths.empty() && places_.boxes.size() > 1 && places_.boxes.size() <= max_linked) {
      line(reef::concat("Grey: the two fastest links of each ",
                        plot_.labels.empty() ? "device." : "cluster, the middle of them."),
           "font-size=\"11\" fill=\"#5b6470\"");
    }
    y += 10;
    if (!plot_.labels.empty()) {
      for (std::size_t b = 0; b < std::min(places_.members.size(), max_entries); ++b) {
        PlotLinks inside(plot_.rates);
        PlotLinks outside(plot_.rates);
        for (const int from : places_.members[b]) {
          for (int to = 0; to < network.devices; ++to) {
            if (from == to) continue;
            const bool own = plot_.labels[static_cast<std::size_t>(from)] ==
                             plot_.labels[static_cast<std::size_t>(to)];
            (own ? inside : outside).add(network, from, to);
          }
        }
        entry(plot_colour(b),
              reef::concat(cluster_name(b), ": ", places_.members[b].size(),
                           places_.members[b].size() == 1 ? " device" : " devices"),
              reef::concat("inside ", inside.text(), "; to others ", outside.text()));
      }
      rest(places_.members.size(), "clusters");
    }
    if (!plot_.paths.empty()) {
      for (std::size_t path = 0; path < std::min(plot_.paths.size(), max_entries); ++path)
        entry(path_colour(path), path_text(path), slowest_link(path));
      rest(plot_.paths.size(), plot_.path_name + "s");
    }
    if (!plot_.groups.empty()) {
      line(
          reef::concat("A device's number is its ", plot_.group_name, "; one without is left out."),
          "font-size=\"11\" fill=\"#5b6470\"");
    }
    panel_height_ = y;
    return out;
  }

  [[nodiscard]] std::string slowest_link(std::size_t path) const {
    const std::vector<int>& chain = plot_.paths[path];
    double most = -1;
    std::string out = "one device";
    for (std::size_t i = 1; i < chain.size(); ++i) {
      const double distance = plot_distance(plot_.network, chain[i - 1], chain[i]);
      if (distance <= most) continue;
      most = distance;
      out = reef::concat("slowest link ",
                         plot_.rates.text(plot_.network.latency(chain[i - 1], chain[i]),
                                          plot_.network.rate(chain[i - 1], chain[i])),
                         ", ", plot_.network.name(chain[i - 1]), " to ",
                         plot_.network.name(chain[i]));
    }
    return out;
  }

  const NetworkPlot& plot_;
  std::size_t n_;
  NetworkPlaces places_;
  double panel_height_ = 0;
};

}  // namespace detail

/// A network, its clusters and a plan on it as a drawing, a whole SVG file: boxes of clusters, devices, lines
/// through the devices of each path, and beside them what colours and numbers mean.
///
/// | place | classical multidimensional scaling of link times, then apart until nothing overlaps |
/// | cost  | O(N^2) for N devices, the same text for the same plot                               |
/// | errors| OptionError for a network that cannot be, and for devices that are not there        |
inline std::string network_svg(const NetworkPlot& plot) {
  return detail::NetworkDrawing(plot).svg();
}

}  // namespace reef_examples
