#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>

namespace reef_examples {

/// What a message of so many bytes took from one device to another.
struct LinkSample {
  double bytes = 0;
  reef::Seconds time = 0;
};

/// A link as planners know it: a message of n bytes takes alpha + beta n.
struct LinkFit {
  reef::Seconds alpha = 0;
  double beta = 0;  ///< seconds per byte
};

/// The line through the samples whose relative errors are least:
///
///     minimum over alpha >= 0, beta > 0 of the sum of ((alpha + beta n_i - t_i) / t_i)^2
///
/// So a large message, which takes long and varies much, counts no more than a small one.
///
/// | samples | of two sizes at least, with bytes and times above 0; the line is flat in what cannot be told |
/// | cost    | O(samples)                                                                                  |
inline LinkFit fit_link(std::span<const LinkSample> samples) {
  double one = 0;
  double n = 0;
  double nn = 0;
  double t = 0;
  double nt = 0;
  for (const LinkSample& sample : samples) {
    const double weight = 1 / (sample.time * sample.time);
    one += weight;
    n += weight * sample.bytes;
    nn += weight * sample.bytes * sample.bytes;
    t += weight * sample.time;
    nt += weight * sample.bytes * sample.time;
  }
  const double determinant = one * nn - n * n;
  LinkFit fit;
  if (determinant > 0) {
    fit.alpha = (nn * t - n * nt) / determinant;
    fit.beta = (one * nt - n * t) / determinant;
  }
  if (!(determinant > 0) || fit.alpha < 0) fit = {0, nt / nn};
  if (fit.beta <= 0) {  // no message took longer for being larger
    const auto largest = std::max_element(
        samples.begin(), samples.end(),
        [](const LinkSample& a, const LinkSample& b) { return a.bytes < b.bytes; });
    fit = {t / one, largest->time / largest->bytes};
  }
  return fit;
}

/// Both directions of a link, of one-way times by the clocks of both ends. Where the clocks are two, what they
/// differ by is in the times there, and with the other sign in those back: no measurement tells that from
/// latencies that differ, so both get the same.
///
/// | there, back | samples of the same sizes in the same order, at least one |
inline std::pair<LinkFit, LinkFit> fit_both(std::vector<LinkSample> there,
                                            std::vector<LinkSample> back, bool same_clock) {
  if (same_clock) return {fit_link(there), fit_link(back)};
  const auto least = [](const LinkSample& a, const LinkSample& b) { return a.bytes < b.bytes; };
  const auto at = std::min_element(there.begin(), there.end(), least) - there.begin();
  const auto smallest = static_cast<std::size_t>(at);
  const reef::Seconds apart = (there[smallest].time - back[smallest].time) / 2;
  for (LinkSample& sample : there) sample.time -= apart;
  for (LinkSample& sample : back) sample.time += apart;
  LinkFit first = fit_link(there);
  LinkFit second = fit_link(back);
  first.alpha = second.alpha = (first.alpha + second.alpha) / 2;
  return {first, second};
}

}  // namespace reef_examples
