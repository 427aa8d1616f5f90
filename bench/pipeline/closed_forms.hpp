#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

/// Makespans of known orders, as formulas: of even chunks, even links.
namespace reef_bench {

/// A pipeline of even stages.
struct EvenPipeline {
  int p = 1;     ///< stages
  int m = 1;     ///< micro-batches
  int v = 1;     ///< chunks of a stage
  double f = 0;  ///< of a chunk: forward, and the halves of its backward
  double b = 0;
  double w = 0;
  double c = 0;  ///< from the end of a chunk to the beginning of the next, on another stage
};

/// The time of a schedule, where there is a formula for it. Those of plan/pipeline_order.hpp, and with links of
/// 1F1B and of f = b = w: exact in all random cases that they were checked on, by a simulator of its own.
inline std::optional<double> closed_form(std::string_view schedule, const EvenPipeline& x) {
  const double p = x.p;
  const double m = x.m;
  const double v = x.v;
  const double both = x.f + x.b + x.w;
  const auto near = [&](double a, double b) { return a - b < 1e-9 && b - a < 1e-9; };
  const bool even = near(x.f, x.b) && near(x.b, x.w);
  const bool free = x.c == 0;
  const bool whole_groups = x.m % x.p == 0;
  const auto at_most = [&](double c) { return x.c < c + 1e-9; };
  const auto where = [](bool holds, double time) {
    return holds ? std::optional(time) : std::nullopt;
  };
  if (schedule == "gpipe" || schedule == "three-slot") {
    return (m + p - 1) * both + 2 * (p - 1) * x.c;
  }
  if (schedule == "1f1b") {
    const int waits = x.p - 1 + (x.m - 1) * (x.p - 1) / x.p;
    return (m + p - 1) * both + 2 * x.c * waits;
  }
  if (schedule == "1f1b-eager") {
    return where(at_most(both / 2), (m + p - 1) * both + 2 * (p - 1) * x.c);
  }
  if (schedule == "interleaved") {
    return where(whole_groups && (free || (even && at_most(x.f))),
                 (m * v + p - 1) * both + 2 * (p * v - 1) * x.c);
  }
  if (schedule == "looped-bfs") return where(free && x.m >= x.p, (m * v + p - 1) * both);
  if (schedule == "zb-h1") {
    return where(x.w <= std::min(x.f, x.b) && x.m >= x.p &&
                     (free || (even && x.m > x.p && at_most(x.f / 2))),
                 m * both + (p - 1) * (x.f + x.b - x.w) + 4 * (p - 1) * x.c);
  }
  if (schedule == "zb-h2") {
    return where(even && at_most(x.f) && x.m >= 2 * x.p - (free ? 2 : 1),
                 3 * m * x.f + (p - 1) * (x.f + x.c));
  }
  if (schedule == "interleaved-zb") {
    return where(free && x.w <= std::min(x.f, x.b) && whole_groups,
                 m * v * both + (p - 1) * (x.f + x.b - x.w));
  }
  if (schedule == "zb-v") {
    return where(free && even && x.m >= 2 * x.p - 1, 6 * m * x.f + (p - 1) * x.f);
  }
  if (schedule == "v-half") {
    return where(free && even && x.m >= x.p,
                 x.f * (6 * m + (x.p % 2 == 0 ? 3.5 * p - 2 : 3.5 * (p - 1))));
  }
  if (schedule == "v-min") {
    return where(free && even && x.m >= x.p, x.f * (6 * m + 4 * p - (x.p % 3 == 0 ? 3 : 5)));
  }
  if (schedule == "dualpipe-v") {
    return where(free && even && x.m >= 2 * x.p, 6 * m * x.f + (p - 1) * x.f);
  }
  return std::nullopt;
}

}  // namespace reef_bench
