// The drawing of a network: well formed, with everything in it once, and nothing over something else.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../examples/support/network_plot.hpp"

namespace {

using namespace reef_examples;
using testing::HasSubstr;
using testing::Not;

/// An element of a drawing: its name, its attributes, the text directly in it.
struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;
};

/// Reads what XML there is in a drawing: elements with quoted attributes, and text without bare marks. A fault is a
/// failure of the test.
std::vector<Element> elements_of(const std::string& xml) {
  std::vector<Element> all;
  std::vector<std::size_t> open;
  const auto is_escaped = [](const std::string& text) {
    for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
      const std::string name = text.substr(at, text.find(';', at) - at + 1);
      if (name != "&amp;" && name != "&lt;" && name != "&gt;" && name != "&quot;") return false;
    }
    return text.find('<') == std::string::npos;
  };
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] != '<') {
      const std::size_t end = std::min(xml.find('<', at), xml.size());
      const std::string text = xml.substr(at, end - at);
      EXPECT_TRUE(is_escaped(text)) << text;
      if (!open.empty()) all[open.back()].text += text;
      at = end;
      continue;
    }
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "no end of " << xml.substr(at, 40);
      return all;
    }
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with('/')) {
      if (open.empty() || all[open.back()].name != tag.substr(1)) {
        ADD_FAILURE() << "'" << tag << "' ends what is not open";
        return all;
      }
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with('/');
    if (closed) tag.pop_back();
    Element element;
    element.name = tag.substr(0, tag.find(' '));
    for (std::size_t from = element.name.size(); from < tag.size();) {
      from = tag.find_first_not_of(" \n", from);
      if (from == std::string::npos) break;
      const std::size_t equals = tag.find("=\"", from);
      const std::size_t quote = equals == std::string::npos ? equals : tag.find('"', equals + 2);
      if (quote == std::string::npos) {
        ADD_FAILURE() << "no attribute: " << tag.substr(from);
        return all;
      }
      const std::string value = tag.substr(equals + 2, quote - equals - 2);
      EXPECT_TRUE(is_escaped(value)) << value;
      EXPECT_TRUE(element.attributes.emplace(tag.substr(from, equals - from), value).second) << tag;
      from = quote + 1;
    }
    all.push_back(std::move(element));
    if (!closed) open.push_back(all.size() - 1);
  }
  EXPECT_TRUE(open.empty());
  return all;
}

std::vector<Element> of_kind(const std::vector<Element>& all, const std::string& name) {
  std::vector<Element> found;
  for (const Element& element : all) {
    if (element.name == name) found.push_back(element);
  }
  return found;
}

/// Devices of `clusters` places, drawn by the seed.
NetworkPlot plot_of(int devices, int clusters, unsigned seed = 1) {
  std::mt19937 draw(seed);
  NetworkPlot plot;
  plot.title = "drawn";
  plot.network.devices = devices;
  std::vector<double> place;
  for (int i = 0; i < devices; ++i) {
    plot.labels.push_back(i % clusters);
    place.push_back(static_cast<double>(draw() % 1000));
  }
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < devices; ++b) {
      const double apart = a % clusters == b % clusters
                               ? 1
                               : std::abs(place[static_cast<std::size_t>(a % clusters)] -
                                          place[static_cast<std::size_t>(b % clusters)]) +
                                     3;
      plot.network.latencies.push_back(1e-3 * apart);
      plot.network.rates.push_back(1e9 / apart);
    }
  }
  return plot;
}

/// Where the devices are.
std::vector<std::pair<double, double>> places_of(const std::vector<Element>& all) {
  std::vector<std::pair<double, double>> places;
  for (const Element& circle : of_kind(all, "circle"))
    places.emplace_back(std::stod(circle.attributes.at("cx")),
                        std::stod(circle.attributes.at("cy")));
  return places;
}

TEST(NetworkPlot, is_well_formed_and_has_every_device_once_whatever_the_network) {
  for (const auto& [devices, clusters] :
       {std::pair{1, 1}, std::pair{2, 1}, std::pair{8, 8}, std::pair{9, 2}, std::pair{64, 8},
        std::pair{65, 3}, std::pair{256, 12}}) {
    for (const bool labelled : {true, false}) {
      NetworkPlot plot = plot_of(devices, clusters);
      if (!labelled) plot.labels.clear();
      const std::string svg = network_svg(plot);
      EXPECT_EQ(svg.find("nan"), std::string::npos);
      EXPECT_EQ(svg.find("inf"), std::string::npos);
      const auto all = elements_of(svg);
      ASSERT_EQ(all.front().name, "svg");
      EXPECT_EQ(all.front().attributes.at("xmlns"), "http://www.w3.org/2000/svg");
      const double width = std::stod(all.front().attributes.at("width"));
      const double height = std::stod(all.front().attributes.at("height"));
      EXPECT_LT(width, 20'000);
      EXPECT_LT(height, 20'000);
      const auto places = places_of(all);
      EXPECT_EQ(places.size(), static_cast<std::size_t>(devices));
      // Each with a distance to all others that its disc needs.
      const double radius = std::stod(of_kind(all, "circle").front().attributes.at("r"));
      for (std::size_t i = 0; i < places.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          EXPECT_GE(
              std::hypot(places[i].first - places[j].first, places[i].second - places[j].second),
              2 * radius)
              << i << " and " << j << " of " << devices;
        }
      }
      std::set<std::string> titles;
      for (const Element& title : of_kind(all, "title")) titles.insert(title.text);
      for (int i = 0; i < devices; ++i)
        EXPECT_TRUE(
            titles.contains("device " + std::to_string(i) + ", number " + std::to_string(i)));
    }
  }
}

TEST(NetworkPlot, boxes_of_clusters_do_not_overlap_and_near_ones_are_drawn_near) {
  NetworkPlot plot = plot_of(24, 3);
  // Clusters 0 and 1 are near each other, 2 is far from both.
  for (int a = 0; a < 24; ++a) {
    for (int b = 0; b < 24; ++b) {
      const bool far = a % 3 != b % 3 && (a % 3 == 2 || b % 3 == 2);
      plot.network.latencies[static_cast<std::size_t>(a * 24 + b)] = far              ? 0.5
                                                                     : a % 3 == b % 3 ? 1e-3
                                                                                      : 0.01;
      plot.network.rates[static_cast<std::size_t>(a * 24 + b)] = 1e9;
    }
  }
  const auto all = elements_of(network_svg(plot));
  const auto places = places_of(all);
  const auto apart = [&](std::size_t a, std::size_t b) {
    return std::hypot(places[a].first - places[b].first, places[a].second - places[b].second);
  };
  EXPECT_LT(apart(0, 1), apart(0, 2));
  EXPECT_LT(apart(0, 1), apart(1, 2));
  std::vector<PlotBox> boxes;
  for (const Element& rect : of_kind(all, "rect")) {
    const auto kind = rect.attributes.find("class");
    if (kind == rect.attributes.end() || kind->second != "cluster") continue;
    boxes.push_back({std::stod(rect.attributes.at("x")), std::stod(rect.attributes.at("y")),
                     std::stod(rect.attributes.at("width")),
                     std::stod(rect.attributes.at("height"))});
  }
  ASSERT_EQ(boxes.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(
          boxes[i].x + boxes[i].width < boxes[j].x || boxes[j].x + boxes[j].width < boxes[i].x ||
          boxes[i].y + boxes[i].height < boxes[j].y || boxes[j].y + boxes[j].height < boxes[i].y);
    }
  }
}

TEST(NetworkPlot, paths_go_through_their_devices_and_the_legend_says_their_slowest_link) {
  NetworkPlot plot = plot_of(6, 2);
  plot.network.names = {"a", "b", "c", "d", "e", "f"};
  plot.paths = {{0, 2, 4}, {1, 3, 5}};
  plot.groups = {{0, 1}, {2, 3}, {4, 5}};
  plot.network.latencies[static_cast<std::size_t>(2 * 6 + 4)] = 0.75;
  plot.facts = {{"total", "12.5 s"}};
  const std::string svg = network_svg(plot);
  const auto all = elements_of(svg);
  const auto lines = of_kind(all, "polyline");
  ASSERT_EQ(lines.size(), 2U);
  const std::string& points = lines[0].attributes.at("points");
  EXPECT_EQ(std::count(points.begin(), points.end(), ','), 3);
  EXPECT_THAT(svg, HasSubstr("pipeline 0: a, c, e"));
  EXPECT_THAT(svg, HasSubstr("slowest link 750 ms"));
  EXPECT_THAT(svg, HasSubstr("c to e"));
  EXPECT_THAT(svg, HasSubstr("total: 12.5 s"));
  EXPECT_THAT(svg, HasSubstr("b, number 1\nstage 0"));
  EXPECT_EQ(svg, network_svg(plot)) << "the same plot is the same drawing";
}

TEST(NetworkPlot, names_are_text_and_no_more) {
  NetworkPlot plot = plot_of(3, 3);
  plot.network.names = {"<script>&\"'", "\xFF\x01 broken",
                        "\u00fcber-l\u00e4nge-\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"};
  plot.title = "</title><x>";
  plot.facts = {{"<b>", "&&"}};
  plot.paths = {{0, 1, 2}};
  const std::string svg = network_svg(plot);
  elements_of(svg);
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;&quot;"));
}

TEST(NetworkPlot, what_is_of_no_device_is_refused) {
  NetworkPlot plot = plot_of(3, 1);
  plot.paths = {{0, 3}};
  EXPECT_THROW(network_svg(plot), reef::OptionError);
  plot.paths.clear();
  plot.labels.pop_back();
  EXPECT_THROW(network_svg(plot), reef::OptionError);
  plot.labels.clear();
  plot.network.rates[1] = 0;
  EXPECT_THROW(network_svg(plot), reef::OptionError);
}

}  // namespace
