#pragma once

#include <cstdlib>
#include <string>

#include <reef/core/error.hpp>
#include <reef/trainer/options.hpp>

namespace reef_bench {

/// A line of a table: RECIPE:B, B micro-batches of a step on each rank, with one of these behind it.
///
/// | :alone    | the step without other ranks                                           |
/// | :adaptive | those and extra ones for as long as it communicates, of the rank's own |
/// | :shared   | the same, of whatever samples are next of all                          |
struct Row {
  std::string recipe;
  std::string mode;
  int micro_batches = 0;
  bool alone = false;
  reef::Accumulation accumulation{};

  explicit Row(const std::string& text) : recipe(text.substr(0, text.find(':'))) {
    using Order = reef::Accumulation::Order;
    const std::size_t count = text.find(':');
    if (count != std::string::npos) {
      micro_batches = std::atoi(text.c_str() + count + 1);
      const std::size_t colon = text.find(':', count + 1);
      if (colon != std::string::npos) mode = text.substr(colon + 1);
    }
    alone = mode == "alone";
    if (mode == "adaptive") accumulation = reef::Accumulation::adaptive();
    if (mode == "shared") accumulation = reef::Accumulation::adaptive(Order::shared);
    if (micro_batches < 1 || !(mode.empty() || alone || accumulation.adapts)) {
      throw reef::OptionError(
          "reef_bench: '", text,
          "'.\n  fix: RECIPE:B, as acco:8, acco:8:alone, :adaptive or :shared.");
    }
  }
};

}  // namespace reef_bench
