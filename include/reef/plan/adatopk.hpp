#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::plan {

/// A link of a pipeline, and what a dense message takes over it.
struct AdaTopKLink {
  Seconds latency = 0;   ///< alpha, of any message
  Seconds transfer = 0;  ///< beta times the bytes of a dense message

  [[nodiscard]] Seconds time() const { return latency + transfer; }
};

/// What is known besides the links.
///
/// | paper | every compressed link takes what the slowest takes at the user's ratio               |
/// | stage | as that, but no less than the slowest stage computes: faster links would wait for it |
struct AdaTopKOptions {
  double ratio = 1;     ///< r, of bytes on the wire: the most by which any message shrinks
  int index_bytes = 8;  ///< of an index that is sent with each value of 4 bytes
  Seconds compute = 0;  ///< of the slowest stage; 0: that of the paper, which does not ask
};

/// Ratios of AdaTopK, by link.
struct AdaTopKRatios {
  std::vector<double> ratios;  ///< n / k, values over values kept; 1: sent dense
  std::vector<Seconds> times;  ///< by link, after
  Seconds target = 0;          ///< T*
  Seconds bottleneck = 0;      ///< the longest of the times
};

/// How much each link is compressed, so that none is slower than need be and none loses more than it must.
///
///     T*  = max(max over links q of  alpha_q + B_q / r,  slowest stage's compute),    B dense transfer
///     r_p = c (R_p - alpha_p) / (T* - alpha_p),    R_p = alpha_p + B_p,   c = (4 + index bytes) / 4    (Eq. 7)
///
/// | most   | no r_p is above c r, however little time latency leaves                               |
/// | dense  | a link that takes T* at most, and one whose message would not shrink: r_p <= c        |
/// | wire   | r is of bytes: at r = 100 and 8-byte indices one value in 300 is kept                 |
/// | errors | OptionError, naming the link or the option                                           |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 5, Eq. 7 and 8. Deviation: latency is not compressed
/// away, and with `compute` no link is made faster than the pipeline can use.
inline AdaTopKRatios adatopk(const std::vector<AdaTopKLink>& links, const AdaTopKOptions& options) {
  if (!within(options.ratio, 1, 1e12)) {
    throw OptionError("reef::plan::adatopk: the ratio is ", options.ratio,
                      ".\n  fix: from 1, which compresses nothing, to 1e12.");
  }
  if (options.index_bytes < 0 || options.index_bytes > 16) {
    throw OptionError("reef::plan::adatopk: an index has ", options.index_bytes,
                      " bytes.\n  fix: from 0 to 16.");
  }
  if (!within(options.compute, 0, 1e12)) {
    throw OptionError("reef::plan::adatopk: the slowest stage computes for ", options.compute,
                      " s.\n  fix: from 0 to 1e12 s.");
  }
  AdaTopKRatios result;
  result.target = options.compute;
  for (std::size_t p = 0; p < links.size(); ++p) {
    if (!within(links[p].latency, 0, 1e12) || !within(links[p].transfer, 0, 1e12)) {
      throw OptionError("reef::plan::adatopk: link ", p, " has a latency of ", links[p].latency,
                        " s and transfers for ", links[p].transfer,
                        " s.\n  fix: both from 0 to 1e12 s.");
    }
    result.target = std::max(result.target, links[p].latency + links[p].transfer / options.ratio);
  }
  const double coefficient = (4 + static_cast<double>(options.index_bytes)) / 4;
  for (const AdaTopKLink& link : links) {
    double ratio = 1;
    Seconds time = link.time();
    if (time > result.target) {
      const Seconds left = result.target - link.latency;
      const double needed = coefficient * link.transfer;
      const double most = coefficient * options.ratio;
      const double wanted = needed < most * left ? needed / left : most;
      if (wanted > coefficient) {
        ratio = wanted;
        time = link.latency + link.transfer * coefficient / wanted;
      }
    }
    result.ratios.push_back(ratio);
    result.times.push_back(time);
    result.bottleneck = std::max(result.bottleneck, time);
  }
  return result;
}

}  // namespace reef::inline v0::plan
