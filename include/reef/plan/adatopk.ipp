#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/adatopk.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE AdaTopKRatios adatopk(const std::vector<AdaTopKLink>& links,
                                  const AdaTopKOptions& options) {
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
    result.target = (std::max)(result.target, links[p].latency + links[p].transfer / options.ratio);
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
    result.bottleneck = (std::max)(result.bottleneck, time);
  }
  return result;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
