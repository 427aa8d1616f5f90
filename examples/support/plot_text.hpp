#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/profile/network.hpp>
#include <reef/trace/detail/html.hpp>

namespace reef_examples {

namespace detail {

/// Colours that are told apart on white, and go on in other shades.
inline std::string plot_colour(std::size_t which) {
  static constexpr std::array<std::string_view, 10> colours{
      "#2a78d6", "#eb6834", "#1baf7a", "#c4265e", "#8a5cd6",
      "#b58900", "#0f9fb5", "#d6409f", "#5b8c2a", "#7a6a5a"};
  if (which < colours.size()) return std::string(colours[which]);
  return reef::concat("hsl(", which * 137 % 360, ",55%,", 34 + which % 3 * 5, "%)");
}

/// As much of a text as fits; the rest is three points.
inline std::string plot_shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most - 2;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;
  return std::string(text.substr(0, end)) + "\u2026";
}

/// A number of three digits: "36.5", "0.381", "12.3k".
inline std::string plot_number(double value) {
  if (value >= 1000) return reef::trace::detail::compact(value);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}
inline std::string plot_ms(double seconds) { return plot_number(seconds * 1e3) + " ms"; }

}  // namespace detail

/// How a drawing says what links are like.
struct PlotRates {
  std::string unit = "Gbit/s";
  double bytes = 1e9 / 8;  ///< a second, which one of these is
  double least = 0;        ///< bytes a second; what is below is no link
  bool latencies = true;   ///< says them, too

  [[nodiscard]] std::string text(reef::Seconds latency, double rate) const {
    const std::string fast =
        reef::concat(detail::plot_number(rate / bytes), unit.empty() ? "" : " ", unit);
    return latencies ? reef::concat(detail::plot_ms(latency), ", ", fast) : fast;
  }
};

namespace detail {

/// The middle of latencies and rates of some links, as text.
class PlotLinks {
public:
  explicit PlotLinks(const PlotRates& rates) : as_(rates) {}

  void add(const reef::profile::Network& network, int from, int to) {
    if (network.rate(from, to) < as_.least) return;
    latencies_.push_back(network.latency(from, to));
    rates_.push_back(network.rate(from, to));
  }
  [[nodiscard]] std::string text() const {
    return latencies_.empty() ? "none" : as_.text(middle(latencies_), middle(rates_));
  }

private:
  static double middle(std::vector<double> values) {
    const auto at = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), at, values.end());
    return *at;
  }
  const PlotRates& as_;
  std::vector<double> latencies_, rates_;
};

}  // namespace detail

}  // namespace reef_examples
